// Boost.Beast's parser of HTTP/1, keeping the few fields that count and handing on what is sent in chunks.
#pragma once

#include <apps/serve/http/api.hpp>
#include <apps/serve/http/body_buffer.hpp>

#include <boost/beast/http/basic_parser.hpp>

#include <cstddef>
#include <string>

namespace serve {

/// Parses one request. Its body goes to a buffer when it comes in chunks; otherwise the caller reads it.
class HeadParser final : public boost::beast::http::basic_parser<true> {
public:
  using Code = boost::beast::error_code;

  explicit HeadParser(std::size_t header_bytes);

  [[nodiscard]] const HttpHead& head() const noexcept {
    return head_;
  }

  /// Whether it is HTTP/1.0, whose connections end unless both sides say otherwise.
  [[nodiscard]] bool is_old() const noexcept {
    return old_;
  }

  /// Whether it is said in a way that is understood where the body ends. Another server in front of this one may look
  /// for the end of any other Transfer-Encoding elsewhere, and take for a part of the body what is the next request.
  [[nodiscard]] bool is_framed() const noexcept {
    return framed_;
  }

  /// Whether it is said once for which host it is, as HTTP/1.1 wants it. Of two, servers take different ones.
  [[nodiscard]] bool names_its_host() const noexcept {
    return hosts_ == 1 || (hosts_ == 0 && old_);
  }

  /// Where chunks go. Must be set before they are parsed.
  void collect_into(BodyBuffer& body) {
    body_ = &body;
    eager(true);
  }

  /// Why the parser stopped, when its code says that the body is at fault.
  [[nodiscard]] BodyBuffer::Growth growth() const noexcept {
    return growth_;
  }

private:
  using Text = boost::beast::string_view;

  void on_request_impl(boost::beast::http::verb verb, Text method, Text target, int version, Code& error) override;
  void on_response_impl(int, Text, int, Code&) override;
  void on_field_impl(boost::beast::http::field field, Text name, Text value, Code& error) override;
  void on_header_impl(Code& error) override;
  void on_body_init_impl(const boost::optional<std::uint64_t>& size, Code& error) override;
  std::size_t on_body_impl(Text body, Code& error) override;
  void on_chunk_header_impl(std::uint64_t size, Text extensions, Code& error) override;
  std::size_t on_chunk_body_impl(std::uint64_t remain, Text body, Code& error) override;
  void on_finish_impl(Code& error) override;

  HttpHead head_;
  bool old_ = false;
  std::size_t hosts_ = 0;
  bool has_transfer_encoding_ = false;
  bool has_trace_ = false;
  bool framed_ = true;
  bool header_read_ = false;
  BodyBuffer* body_ = nullptr;
  BodyBuffer::Growth growth_ = BodyBuffer::Growth::done;
};

} // namespace serve
