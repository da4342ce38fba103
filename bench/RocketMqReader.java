// Reads all messages of a topic with RocketMQ's own client: BROKER/QUEUE <tab> OFFSET <tab> BODY, a line each.
// Used by bench/e2e_rocketmq.py: java -cp 'JARS/*' RocketMqReader.java NAME_SERVER TOPIC OUT

import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

public class RocketMqReader {
    public static void main(String[] arguments) throws Exception {
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer("INDEPENDENT_READER");
        consumer.setNamesrvAddr(arguments[0]);
        consumer.start();
        try (OutputStream out = Files.newOutputStream(Path.of(arguments[2]))) {
            StringBuilder lines = new StringBuilder();
            for (MessageQueue queue : consumer.fetchSubscribeMessageQueues(arguments[1])) {
                long offset = consumer.minOffset(queue);
                long end = consumer.maxOffset(queue);
                while (offset < end) {
                    PullResult found = consumer.pull(queue, "*", offset, 1024);
                    if (found.getPullStatus() == PullStatus.FOUND) {
                        for (MessageExt message : found.getMsgFoundList()) {
                            lines.append(queue.getBrokerName()).append('/').append(queue.getQueueId())
                                .append('\t').append(message.getQueueOffset()).append('\t')
                                .append(new String(message.getBody(), StandardCharsets.UTF_8)).append('\n');
                        }
                    } else if (found.getPullStatus() == PullStatus.OFFSET_ILLEGAL) {
                        throw new IllegalStateException(queue + " at " + offset + ": " + found);
                    }
                    offset = found.getNextBeginOffset();
                    if (lines.length() > 1 << 20) {
                        out.write(lines.toString().getBytes(StandardCharsets.UTF_8));
                        lines.setLength(0);
                    }
                }
            }
            out.write(lines.toString().getBytes(StandardCharsets.UTF_8));
        }
        consumer.shutdown();
        System.exit(0);
    }
}
