millrace_sink(redis HEADER hiredis/hiredis.h LIBRARIES hiredis PACKAGE libhiredis-dev)
millrace_sink_feature(redis tls HEADER openssl/ssl.h LIBRARIES ssl crypto PACKAGE libssl-dev)
