#include <apps/serve/http/head_parser.hpp>

#include <boost/beast/http/error.hpp>
#include <boost/none.hpp>

#include <algorithm>
#include <limits>
#include <span>
#include <utility>

namespace serve {

namespace http = boost::beast::http;

namespace {

std::string string_of(boost::beast::string_view text) {
  return {text.data(), text.size()};
}

/// For fields whose values are the same in large and small letters.
std::string lower_of(boost::beast::string_view text) {
  auto lower = string_of(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](char c) { return static_cast<char>(c >= 'A' && c <= 'Z' ? c | 0x20 : c); });
  return lower;
}

} // namespace

HeadParser::HeadParser(std::size_t header_bytes) {
  // The size of a body is looked at by the connection, which can answer why it is too large.
  body_limit(std::numeric_limits<std::uint64_t>::max());
  header_limit(
      static_cast<std::uint32_t>(std::min<std::size_t>(header_bytes, std::numeric_limits<std::uint32_t>::max())));
}

void HeadParser::on_request_impl(http::verb, Text method, Text target, int version, Code&) {
  old_ = version < 11;
  head_.method = string_of(method);
  head_.target = string_of(target);
}

void HeadParser::on_response_impl(int, Text, int, Code& error) {
  error = http::error::bad_method;
}

void HeadParser::on_field_impl(http::field field, Text name, Text value, Code&) {
  // Those behind chunks come after all that they could say has been decided.
  if (header_read_)
    return;
  hosts_ += field == http::field::host ? 1 : 0;
  if (field == http::field::authorization)
    head_.authorization = string_of(value);
  else if (field == http::field::content_encoding)
    head_.content_encoding = lower_of(value);
  else if (field == http::field::host)
    head_.host = lower_of(value);
  else if (field == http::field::origin)
    head_.origin = lower_of(value);
  else if (field == http::field::transfer_encoding)
    framed_ = !std::exchange(has_transfer_encoding_, true) && lower_of(value) == "chunked" && !old_;
  else if (field == http::field::expect)
    head_.expects_continue = lower_of(value) == "100-continue";
  else if (field == http::field::unknown && lower_of(name) == "inference-header-content-length")
    head_.inference_header_bytes = string_of(value);
  else if (field == http::field::unknown && lower_of(name) == "x-request-id")
    head_.request_id = string_of(value);
  else if (field == http::field::unknown && boost::beast::iequals(name, "traceparent"))
    // Of two, nobody knows which one is meant.
    head_.trace = std::exchange(has_trace_, true)
                      ? gpuactors::TraceContext{}
                      : gpuactors::parse_traceparent({value.data(), value.size()}).value_or(gpuactors::TraceContext{});
}

void HeadParser::on_header_impl(Code&) {
  header_read_ = true;
}

void HeadParser::on_body_init_impl(const boost::optional<std::uint64_t>&, Code&) {
  // nop
}

std::size_t HeadParser::on_body_impl(Text body, Code&) {
  return body.size(); // not reached: the connection reads such bodies
}

void HeadParser::on_chunk_header_impl(std::uint64_t, Text, Code&) {
  // nop
}

std::size_t HeadParser::on_chunk_body_impl(std::uint64_t, Text body, Code& error) {
  growth_ = body_->append(std::as_bytes(std::span{body.data(), body.size()}));
  if (growth_ != BodyBuffer::Growth::done)
    error = http::error::body_limit;
  return body.size();
}

void HeadParser::on_finish_impl(Code&) {
  // nop
}

} // namespace serve
