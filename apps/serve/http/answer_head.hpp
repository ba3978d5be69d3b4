// The status line and the fields of an answer.
#pragma once

#include <apps/serve/http/api.hpp>

#include <string>
#include <string_view>

namespace serve {

/// Everything up to the body. It says whether the connection goes on where the client would think otherwise.
/// @param old The client speaks HTTP/1.0.
/// @param request_id Told to the client; empty: none is.
[[nodiscard]] std::string answer_head(const HttpAnswer& answer, bool keep_alive, bool old,
                                      std::string_view request_id = {});

} // namespace serve
