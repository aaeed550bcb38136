millrace_sink(kafka HEADER librdkafka/rdkafka.h LIBRARIES rdkafka PACKAGE librdkafka-dev)
