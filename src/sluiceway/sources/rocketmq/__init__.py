"""RocketMQ as a source, through a client of its remoting protocol."""
