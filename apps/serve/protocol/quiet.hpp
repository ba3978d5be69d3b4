// Keeps what clients send out of the log.
#pragma once

#include <google/protobuf/stubs/common.h>
#if GOOGLE_PROTOBUF_VERSION < 4022000
#include <google/protobuf/stubs/logging.h>
#endif

namespace serve {

/// Protobuf would write a line to standard error for each message whose strings are no UTF-8; such requests are
/// answered with a sentence instead. Later releases log through Abseil, where they are left alone.
inline void keep_protobuf_quiet() {
#if GOOGLE_PROTOBUF_VERSION < 4022000
  google::protobuf::SetLogHandler(nullptr);
#endif
}

} // namespace serve
