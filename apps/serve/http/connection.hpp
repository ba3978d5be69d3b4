// One connection of the HTTP front: requests come in one after the other, each is answered before the next is read.
#pragma once

#include <apps/serve/http/body_buffer.hpp>
#include <apps/serve/http/head_parser.hpp>
#include <apps/serve/http/input.hpp>
#include <apps/serve/http/loop.hpp>

#include <boost/asio/buffer.hpp>
#include <boost/asio/ssl/stream.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace serve {

/// Lives on the thread of its loop, which knows it until it is closed.
class Connection : public std::enable_shared_from_this<Connection> {
public:
  /// @param stranger None: to be answered with 503, whatever it wants.
  Connection(std::shared_ptr<Loop> loop, Socket socket, std::optional<Strangers::Key> stranger);

  void start();

  /// When `expire` is to be called.
  [[nodiscard]] gpuactors::TimePoint deadline() const noexcept {
    return deadline_;
  }

  /// What the connection waits for took too long.
  void expire();
  /// Another one needs the place: close, unless a request has been accepted.
  void evict();
  /// The server ends: close when nothing is under way, else after the next answer.
  void drain();
  /// Gives up the inference that is under way, if there is one.
  void cancel();
  /// The loop has ended: lets go of everything.
  void abandon();

private:
  using Code = boost::system::error_code;

  enum class State : std::uint8_t {
    handshake,
    /// Waits for a request or reads its header.
    head,
    /// Tells a client that asked for it to go on.
    asking,
    /// Reads a body whose size is known straight to where it stays.
    body,
    chunks,
    /// Waits for the answer.
    working,
    writing,
    /// Waits for the next piece of an answer.
    between,
    /// Has said the last word, and reads what the client still sends so that it sees that word.
    lingering,
    closed,
  };

  void greet();
  void leave_strangers();

  // -- reading
  void read_input();
  void on_input(const Code& error, std::size_t bytes);
  void on_end(const Code& error);
  void drop_empty_lines();
  void parse_head();
  void begin_body();
  void ask_for_body();
  void continue_body();
  void read_body();
  void on_body(const Code& error, std::size_t bytes);
  void parse_chunks();

  // -- answering
  void work();
  void refuse(int status, std::string_view sentence);
  void refuse(BodyBuffer::Growth growth);
  void respond(HttpAnswer answer);
  void await_piece();
  void write_piece(std::optional<HttpPiece> piece);
  void on_written(const Code& error);
  void next_request();

  /// Begins the line of the request whose header has come, if anybody wants one.
  void begin_line();

  // -- ending
  void linger();
  void drop_input();
  void drop_more();
  void close();

  void allow(gpuactors::Duration time);
  /// Begins a transfer, or lets it go on after so many bytes.
  void begin_transfer();
  void extend_transfer(std::size_t bytes);

  template <class Handler>
  void receive(boost::asio::mutable_buffer buffer, Handler handler);
  template <class Handler>
  void send(const std::vector<boost::asio::const_buffer>& buffers, Handler handler);

  std::shared_ptr<Loop> loop_;
  Socket socket_;
  std::optional<boost::asio::ssl::stream<Socket&>> tls_;
  State state_ = State::head;
  bool reading_ = false;
  bool keep_alive_ = true;
  /// Nothing of the next request has been looked at.
  bool untouched_ = true;
  /// One too many.
  bool turned_away_;
  /// Until a request has been accepted.
  std::optional<Strangers::Key> stranger_;
  gpuactors::TimePoint deadline_ = gpuactors::never;
  gpuactors::TimePoint transfer_began_;
  InputBuffer input_;
  std::optional<HeadParser> parser_;
  /// What the parser has taken of the header so far.
  std::size_t head_bytes_ = 0;
  std::optional<Route> route_;
  BodyBuffer body_;
  std::size_t body_bytes_ = 0;
  std::size_t most_body_bytes_ = 0;
  std::shared_ptr<Service::Ticket> ticket_;
  /// What is being written.
  HttpAnswer answer_;
  std::string answer_head_;
  /// Whether pieces are framed; else the end of the connection is the end of the answer.
  bool chunked_ = false;
  /// What the client is told as the id of its request; empty: nothing.
  std::string request_id_;
  std::optional<RequestLine> line_;
  /// What the work for the request is a part of.
  gpuactors::TraceContext trace_;
  /// What is read when nobody wants it any more.
  std::vector<char> dropped_;
};

} // namespace serve
