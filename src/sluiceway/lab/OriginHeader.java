package sluiceway.mirror;

import java.nio.charset.StandardCharsets;
import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.header.Headers;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.transforms.Transformation;

/**
 * Adds to each record that MirrorMaker copies the place that it was read from: header `sw-origin`,
 * `cluster/topic/partition:offset@record time`. Records of others, such as heartbeats, stay as they are.
 */
public class OriginHeader<R extends ConnectRecord<R>> implements Transformation<R> {
    private static final String CLUSTER = "cluster";
    private static final String HEADER = "header";

    private String cluster;
    private String header;

    @Override
    public R apply(R record) {
        Object any = record;
        if (!(any instanceof SourceRecord)) return record;
        SourceRecord source = (SourceRecord) any;
        if (source.sourcePartition() == null || source.sourceOffset() == null) return record;
        Object topic = source.sourcePartition().get("topic");
        Object partition = source.sourcePartition().get("partition");
        Object offset = source.sourceOffset().get("offset");
        if (topic == null || partition == null || !(offset instanceof Number)) return record;
        long time = record.timestamp() == null ? -1 : record.timestamp();
        String origin = cluster + "/" + topic + "/" + partition + ":" + offset + "@" + time;
        Headers headers = record.headers().duplicate();
        headers.add(header, origin.getBytes(StandardCharsets.UTF_8), Schema.BYTES_SCHEMA);
        return record.newRecord(record.topic(), record.kafkaPartition(), record.keySchema(), record.key(),
            record.valueSchema(), record.value(), record.timestamp(), headers);
    }

    @Override
    public ConfigDef config() {
        return new ConfigDef()
            .define(CLUSTER, ConfigDef.Type.STRING, ConfigDef.NO_DEFAULT_VALUE, ConfigDef.Importance.HIGH,
                "Id of the cluster that is copied from, as Kafka has it.")
            .define(HEADER, ConfigDef.Type.STRING, "sw-origin", ConfigDef.Importance.LOW, "Name of the header.");
    }

    @Override
    public void configure(Map<String, ?> configs) {
        Map<String, Object> parsed = config().parse(configs);
        cluster = (String) parsed.get(CLUSTER);
        header = (String) parsed.get(HEADER);
        if (cluster.isBlank() || cluster.contains("/")) {
            throw new ConfigException(CLUSTER, cluster, "expected the id of the cluster that is copied from");
        }
    }

    @Override
    public void close() {}
}
