#include <apps/serve/http/answer_head.hpp>
#include <apps/serve/protocol/json_text.hpp>

#include <string_view>

namespace serve {

namespace {

std::string_view reason_of(int status) {
  switch (status) {
  case 200:
    return "OK";
  case 400:
    return "Bad Request";
  case 401:
    return "Unauthorized";
  case 403:
    return "Forbidden";
  case 404:
    return "Not Found";
  case 405:
    return "Method Not Allowed";
  case 408:
    return "Request Timeout";
  case 413:
    return "Payload Too Large";
  case 415:
    return "Unsupported Media Type";
  case 501:
    return "Not Implemented";
  case 429:
    return "Too Many Requests";
  case 431:
    return "Request Header Fields Too Large";
  case 499:
    return "Client Closed Request";
  case 503:
    return "Service Unavailable";
  case 504:
    return "Gateway Timeout";
  default:
    return "Internal Server Error";
  }
}

} // namespace

std::string answer_head(const HttpAnswer& answer, bool keep_alive, bool old, std::string_view request_id) {
  auto bytes = answer.text.size();
  for (const auto& raw : answer.raw)
    bytes += raw.size();
  std::string head = "HTTP/1.1 ";
  append_number(head, answer.status);
  head.append(" ").append(reason_of(answer.status)).append("\r\nContent-Type: ").append(answer.content_type);
  if (answer.tell_text_size) {
    head += "\r\nInference-Header-Content-Length: ";
    append_number(head, answer.text.size());
  }
  if (answer.stream == nullptr) {
    head += "\r\nContent-Length: ";
    append_number(head, bytes);
  } else {
    // Who stores answers must not wait for the end of this one. An old client knows it by the end of the connection.
    head += "\r\nCache-Control: no-cache";
    head += old ? "" : "\r\nTransfer-Encoding: chunked";
  }
  if (!answer.allow.empty())
    head.append("\r\nAllow: ").append(answer.allow);
  if (!request_id.empty())
    head.append("\r\nX-Request-Id: ").append(request_id);
  if (answer.status == 401)
    head += "\r\nWWW-Authenticate: Bearer";
  if (answer.status == 429 || answer.status == 503)
    head += "\r\nRetry-After: 1";
  if (keep_alive == old)
    head += keep_alive ? "\r\nConnection: keep-alive" : "\r\nConnection: close";
  head += "\r\n\r\n";
  return head;
}

} // namespace serve
