millrace_sink(rocksdb HEADER rocksdb/db.h LIBRARIES rocksdb PACKAGE librocksdb-dev)
