// Keeps what clients do out of the log.
#pragma once

#include <google/protobuf/stubs/common.h>
#include <grpcpp/version_info.h>
#if GOOGLE_PROTOBUF_VERSION < 4022000
#include <google/protobuf/stubs/logging.h>
#endif
#if GRPC_CPP_VERSION_MAJOR == 1 && GRPC_CPP_VERSION_MINOR < 65
#include <grpc/support/log.h>
#endif

namespace serve {

/// Protobuf and gRPC would write a line to standard error for requests that they refuse, as often as somebody sends
/// them. Such requests are answered instead. Later releases log through Abseil, where they are left alone.
inline void keep_quiet() {
#if GOOGLE_PROTOBUF_VERSION < 4022000
  google::protobuf::SetLogHandler(nullptr);
#endif
#if GRPC_CPP_VERSION_MAJOR == 1 && GRPC_CPP_VERSION_MINOR < 65
  gpr_set_log_function([](gpr_log_func_args*) {});
#endif
}

} // namespace serve
