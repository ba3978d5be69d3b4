#include <apps/serve/http/answer_head.hpp>
#include <apps/serve/http/connection.hpp>
#include <apps/serve/http/spans.hpp>

#include <boost/asio/write.hpp>
#include <boost/beast/http/error.hpp>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <span>
#include <string_view>
#include <utility>

namespace serve {

namespace asio = boost::asio;
namespace http = boost::beast::http;

namespace {

using namespace std::chrono_literals;

// How long a client may go on sending what nobody reads any more.
constexpr gpuactors::Duration linger_time = 2s;
// The most that one read or write takes; of a body, it is counted against the bound before. So is the least, but no
// more than has arrived already: who only announces much keeps room from nobody.
constexpr std::size_t transfer_step = 256U << 10;
constexpr std::size_t least_step = 4U << 10;
// The memory for what is read and dropped.
constexpr std::size_t drop_step = 16U << 10;
constexpr std::size_t transfer_unit = 1U << 20;
/// Whether the client has closed its end.
bool is_end(const boost::system::error_code& error) {
  return error == asio::error::eof || error == asio::error::connection_reset
         || error == asio::ssl::error::stream_truncated;
}

constexpr std::string_view go_on = "HTTP/1.1 100 Continue\r\n\r\n";
constexpr std::string_view line_end = "\r\n";
constexpr std::string_view last_chunk = "0\r\n\r\n";

// The status of a request whose client has gone before it was answered.
constexpr int client_has_gone = 499;

/// Whether the log is about it: probes and scrapers come every second.
bool is_logged(EndpointKind endpoint) {
  return is_inference(endpoint) || endpoint == EndpointKind::load || endpoint == EndpointKind::unload;
}

void note_answer(LoggedRequest& line, const HttpAnswer& answer) {
  line.status = answer.status;
  if (!answer.model.empty())
    line.model = answer.model;
  line.version = answer.version;
  line.times = answer.times;
  line.out_bytes = answer.text.size();
  for (const auto& raw : answer.raw)
    line.out_bytes += raw.size();
  if (answer.stream)
    line.first = gpuactors::Clock::now() - line.begun;
}

std::string_view input_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// What is before the bytes of a chunk: how many there are.
std::string chunk_head(std::size_t bytes) {
  char text[16];
  return std::string{text, std::to_chars(text, text + sizeof text, bytes, 16).ptr}.append(line_end);
}

} // namespace

Connection::Connection(std::shared_ptr<Loop> loop, Socket socket, std::optional<Strangers::Key> stranger)
  : loop_(std::move(loop)), socket_(std::move(socket)), turned_away_(!stranger), stranger_(stranger),
    input_(loop_->state()->options.limits.header_bytes) {
  if (loop_->tls())
    tls_.emplace(socket_, *loop_->tls());
}

template <class Handler>
void Connection::receive(asio::mutable_buffer buffer, Handler handler) {
  if (tls_)
    tls_->async_read_some(buffer, std::move(handler));
  else
    socket_.async_read_some(buffer, std::move(handler));
}

template <class Handler>
void Connection::send(const std::vector<asio::const_buffer>& buffers, Handler handler) {
  // Called before each piece: what has gone out so far says how long the rest may take.
  auto next_piece = [this](const Code& error, std::size_t sent) -> std::size_t {
    if (error)
      return 0;
    extend_transfer(sent);
    return transfer_step;
  };
  if (tls_)
    asio::async_write(*tls_, buffers, next_piece, std::move(handler));
  else
    asio::async_write(socket_, buffers, next_piece, std::move(handler));
}

void Connection::allow(gpuactors::Duration time) {
  deadline_ = gpuactors::deadline_after(gpuactors::Clock::now(), time);
}

void Connection::begin_transfer() {
  transfer_began_ = gpuactors::Clock::now();
  extend_transfer(0);
}

void Connection::extend_transfer(std::size_t bytes) {
  const auto units = static_cast<std::int64_t>(1 + bytes / transfer_unit);
  deadline_ = gpuactors::deadline_after(transfer_began_, loop_->state()->options.limits.transfer * units);
}

void Connection::start() {
  if (!tls_)
    return greet();
  state_ = State::handshake;
  allow(std::min(loop_->state()->options.limits.transfer, loop_->state()->options.limits.greeting));
  tls_->async_handshake(asio::ssl::stream_base::server, [self = shared_from_this()](const Code& error) {
    if (self->state_ == State::closed)
      return;
    if (error)
      return self->close();
    self->greet();
  });
}

void Connection::greet() {
  if (turned_away_)
    return refuse(503, "the server has as many connections as it may: try again");
  next_request();
}

void Connection::leave_strangers() {
  if (stranger_)
    loop_->strangers().remove(*std::exchange(stranger_, std::nullopt));
}

// -- reading -----------------------------------------------------------------------------------

void Connection::read_input() {
  if (reading_ || state_ == State::closed)
    return;
  const auto room = input_.lend();
  if (room.empty())
    return;
  reading_ = true;
  receive(asio::buffer(room.data(), room.size()),
          [self = shared_from_this()](const Code& error, std::size_t bytes) { self->on_input(error, bytes); });
}

void Connection::on_input(const Code& error, std::size_t bytes) {
  reading_ = false;
  input_.commit(bytes);
  if (state_ == State::closed)
    return;
  if (state_ == State::lingering)
    return is_end(error) ? close() : void();
  if (error)
    return on_end(error);
  switch (state_) {
  case State::head:
    return parse_head();
  case State::body:
  case State::chunks:
    return continue_body();
  default:
    // The next request, while this one is being answered: it waits, and the end of the connection is still seen
    // while there is room.
    return read_input();
  }
}

void Connection::on_end(const Code& error) {
  if (state_ == State::working || state_ == State::between || (state_ == State::writing && error == asio::error::eof)) {
    // Nobody waits for the answer any more. It still comes, and finds that out when it is written.
    keep_alive_ = false;
    cancel();
    return;
  }
  close();
}

/// Those before a request are none of it: some clients send one behind a body.
void Connection::drop_empty_lines() {
  while (input_text(input_.data()).starts_with(line_end))
    input_.consume(line_end.size());
}

void Connection::parse_head() {
  const auto most = loop_->state()->options.limits.header_bytes;
  if (!parser_)
    parser_.emplace(most);
  if (untouched_)
    drop_empty_lines();
  if (input_.empty() || (untouched_ && line_end.starts_with(input_text(input_.data()))))
    return read_input();
  if (std::exchange(untouched_, false)) {
    const auto latest = deadline_;
    begin_transfer();
    if (stranger_)
      deadline_ = std::min(deadline_, latest);
  }
  Code error;
  const auto data = input_.data();
  const auto used = parser_->put(asio::buffer(data.data(), data.size()), error);
  input_.consume(used);
  head_bytes_ += used;
  // The parser's own bound holds for each piece that it is given, and fields that came whole are taken off it.
  const auto pending = parser_->is_header_done() ? 0 : input_.data().size();
  if (head_bytes_ + pending > most || (error == http::error::need_more && input_.full()))
    error = http::error::header_limit;
  if (error == http::error::need_more)
    return read_input();
  if (error == http::error::header_limit)
    return refuse(431, "the header of the request is too large");
  if (error)
    return refuse(400, "the request is not HTTP/1.1: " + error.message());
  if (!parser_->is_header_done())
    return read_input();
  begin_body();
}

void Connection::begin_body() {
  const auto& state = *loop_->state();
  if (!parser_->is_framed())
    return refuse(400, "of the Transfer-Encodings this server has chunked, alone");
  if (!parser_->names_its_host())
    return refuse(400, "the request needs one field Host, and no second one");
  keep_alive_ = parser_->keep_alive();
  HttpAnswer refused;
  route_ = loop_->api().admit(parser_->head(), refused);
  begin_line();
  const auto has_body = parser_->chunked() || parser_->content_length().value_or(0) > 0;
  if (!route_) {
    // The body is not waited for.
    keep_alive_ = keep_alive_ && !has_body;
    return respond(std::move(refused));
  }
  const auto known = loop_->api().is_known(parser_->head());
  if (known)
    leave_strangers();
  if (!has_body)
    return work();
  // What strangers may ask for needs none, and theirs would take room and time from others.
  if (!known)
    return refuse(413, "a request without a token may have no body here");
  const auto& limits = state.options.limits;
  most_body_bytes_ = limits.request_bytes;
  if (!is_inference(route_->endpoint))
    most_body_bytes_ = std::min(most_body_bytes_, limits.small_request_bytes);
  else if (route_->endpoint == EndpointKind::completions || route_->endpoint == EndpointKind::chat_completions)
    most_body_bytes_ = std::min(most_body_bytes_, limits.generative_request_bytes);
  body_ = BodyBuffer{state.held, most_body_bytes_};
  const auto expected = parser_->content_length().value_or(0);
  if (expected > most_body_bytes_)
    return refuse(BodyBuffer::Growth::too_large);
  body_bytes_ = static_cast<std::size_t>(expected);
  if (!parser_->chunked())
    if (const auto growth = body_.expect(body_bytes_); growth != BodyBuffer::Growth::done)
      return refuse(growth);
  if (parser_->chunked())
    parser_->collect_into(body_);
  begin_transfer();
  if (parser_->head().expects_continue && input_.empty())
    return ask_for_body();
  state_ = parser_->chunked() ? State::chunks : State::body;
  continue_body();
}

void Connection::ask_for_body() {
  state_ = State::asking;
  send({asio::buffer(go_on.data(), go_on.size())}, [self = shared_from_this()](const Code& error, std::size_t) {
    if (self->state_ != State::asking)
      return;
    if (error)
      return self->close();
    self->state_ = self->parser_->chunked() ? State::chunks : State::body;
    self->continue_body();
  });
}

void Connection::continue_body() {
  if (state_ == State::chunks)
    return parse_chunks();
  const auto here = input_.data().first(std::min(input_.data().size(), body_bytes_ - body_.size()));
  if (const auto growth = body_.append(here); growth != BodyBuffer::Growth::done)
    return refuse(growth);
  input_.consume(here.size());
  read_body();
}

void Connection::read_body() {
  const auto missing = body_bytes_ - body_.size();
  if (missing == 0)
    return work();
  // A read that began while the request before was being answered takes what comes next; `on_input` goes on.
  if (reading_)
    return;
  const auto step = std::min({missing, transfer_step, std::max(least_step, body_.size())});
  if (const auto growth = body_.reserve(step); growth != BodyBuffer::Growth::done)
    return refuse(growth);
  receive(asio::buffer(body_.free().data(), step),
          [self = shared_from_this()](const Code& error, std::size_t bytes) { self->on_body(error, bytes); });
}

void Connection::on_body(const Code& error, std::size_t bytes) {
  if (state_ != State::body)
    return;
  if (error)
    return close();
  body_.fill(bytes);
  extend_transfer(body_.size());
  read_body();
}

void Connection::parse_chunks() {
  Code error;
  while (!input_.empty() && !parser_->is_done()) {
    const auto data = input_.data();
    const auto used = parser_->put(asio::buffer(data.data(), data.size()), error);
    input_.consume(used);
    if (error || used == 0)
      break;
  }
  if (parser_->growth() != BodyBuffer::Growth::done)
    return refuse(parser_->growth());
  if (error && error != http::error::need_more)
    return refuse(400, "the chunks of the request's body are damaged: " + error.message());
  if (parser_->is_done())
    return work();
  extend_transfer(body_.size());
  if (input_.full())
    return refuse(400, "the chunks of the request's body are damaged: the line that begins one is too long");
  read_input();
}

// -- answering ---------------------------------------------------------------------------------

void Connection::work() {
  state_ = State::working;
  if (line_) {
    line_->about.in_bytes = body_.size();
    line_->about.model = route_->model;
  }
  // How long an answer may take is the model's business.
  deadline_ = gpuactors::never;
  auto ticket = loop_->api().answer(parser_->head(), trace_, std::move(*route_), std::move(body_).take(),
                                    [self = shared_from_this()](HttpAnswer answer) {
                                      self->loop_->post([self, answer = std::move(answer)]() mutable {
                                        // Closed while it was being answered: the answer is for nobody.
                                        if (self->state_ == State::working)
                                          self->respond(std::move(answer));
                                      });
                                    });
  body_ = {};
  ticket_ = std::move(ticket);
  read_input();
}

void Connection::refuse(int status, std::string_view sentence) {
  keep_alive_ = false;
  respond(refusal(status, sentence));
}

void Connection::refuse(BodyBuffer::Growth growth) {
  body_ = {};
  if (growth == BodyBuffer::Growth::no_room)
    return refuse(503, held_too_much);
  refuse(413, "the request is larger than the " + std::to_string(most_body_bytes_) + " bytes that are allowed");
}

void Connection::respond(HttpAnswer answer) {
  const auto old = parser_ && parser_->is_old();
  state_ = State::writing;
  answer_ = std::move(answer);
  loop_->state()->http_answers.add(answer_.status);
  keep_alive_ = keep_alive_ && loop_->state()->stays() && !(old && answer_.stream);
  answer_head_ = answer_head(answer_, keep_alive_, old, request_id_);
  if (line_)
    note_answer(line_->about, answer_);
  chunked_ = answer_.stream && !old;
  if (!answer_.stream)
    ticket_ = nullptr;
  else if (chunked_ && !answer_.text.empty())
    answer_.text = chunk_head(answer_.text.size()).append(answer_.text).append(line_end);
  std::vector<asio::const_buffer> buffers{asio::buffer(answer_head_)};
  if (!parser_ || parser_->head().method != "HEAD") {
    buffers.push_back(asio::buffer(answer_.text));
    for (const auto& raw : answer_.raw)
      buffers.push_back(asio::buffer(raw.view().data(), raw.size()));
  }
  begin_transfer();
  send(buffers, [self = shared_from_this()](const Code& error, std::size_t) { self->on_written(error); });
}

void Connection::await_piece() {
  state_ = State::between;
  deadline_ = gpuactors::never;
  answer_.text.clear();
  answer_.share = {};
  answer_.stream->next([self = shared_from_this()](std::optional<HttpPiece> piece) {
    self->loop_->post([self, piece = std::move(piece)]() mutable {
      if (self->state_ == State::between)
        self->write_piece(std::move(piece));
    });
  });
}

void Connection::write_piece(std::optional<HttpPiece> piece) {
  state_ = State::writing;
  std::vector<asio::const_buffer> buffers;
  if (piece) {
    answer_.text = std::move(piece->text);
    if (line_) {
      line_->about.out_bytes += answer_.text.size();
      line_->about.status = piece->status;
    }
    answer_.share = std::move(piece->share);
    answer_head_ = chunked_ ? chunk_head(answer_.text.size()) : "";
    buffers = {asio::buffer(answer_head_), asio::buffer(answer_.text)};
    if (chunked_)
      buffers.push_back(asio::buffer(line_end.data(), line_end.size()));
  } else {
    ticket_ = nullptr;
    answer_.stream = nullptr;
    if (chunked_)
      buffers = {asio::buffer(last_chunk.data(), last_chunk.size())};
  }
  begin_transfer();
  send(buffers, [self = shared_from_this()](const Code& error, std::size_t) { self->on_written(error); });
}

void Connection::on_written(const Code& error) {
  if (state_ != State::writing)
    return;
  if (!error && answer_.stream)
    return await_piece();
  answer_ = {};
  if (error)
    return close();
  if (line_)
    line_->end(line_->about.status);
  line_.reset();
  if (!keep_alive_)
    return linger();
  next_request();
}

void Connection::next_request() {
  parser_.reset();
  request_id_.clear();
  head_bytes_ = 0;
  state_ = State::head;
  drop_empty_lines();
  if (loop_->state()->stopping && (stranger_ || input_.empty()))
    return close();
  const auto& limits = loop_->state()->options.limits;
  allow(stranger_ ? std::min(limits.idle, limits.greeting) : limits.idle);
  untouched_ = true;
  if (input_.empty())
    read_input();
  else
    parse_head();
}

// -- the log and traces ------------------------------------------------------------------------

void Connection::begin_line() {
  const auto& head = parser_->head();
  const auto& log = loop_->state()->log;
  if (log != nullptr || !head.request_id.empty())
    request_id_ = request_id_of(head.request_id);
  trace_ = head.trace;
  if (route_ && !is_logged(route_->endpoint))
    return;
  auto span = begin_span(head, route_, tls_.has_value());
  trace_ = span.context();
  if (log == nullptr && !span.recorded())
    return;
  line_.emplace(log, client_has_gone, std::move(span));
  auto& about = line_->about;
  about.front = "http";
  Code ignored;
  if (const auto peer = socket_.remote_endpoint(ignored); !ignored)
    about.client = gpuactors::to_string(gpuactors::Endpoint{peer.address().to_string(), peer.port()});
  about.id = request_id_;
  about.what = head.method + ' ' + head.target;
}

// -- ending ------------------------------------------------------------------------------------

void Connection::expire() {
  switch (state_) {
  case State::head:
    if (untouched_)
      return close();
    return refuse(408, "the header of the request took too long");
  case State::body:
  case State::chunks:
    return refuse(408, "the body of the request took too long");
  default:
    return close();
  }
}

void Connection::evict() {
  if (stranger_)
    close();
}

void Connection::drain() {
  // Nobody knows whether the rest of a header that a stranger has begun would ever come. Bodies they have none.
  if (state_ == State::handshake || (state_ == State::head && (stranger_ || untouched_)))
    close();
}

void Connection::cancel() {
  if (const auto ticket = ticket_)
    ticket->cancel();
}

void Connection::linger() {
  state_ = State::lingering;
  allow(linger_time);
  if (!tls_)
    return drop_input();
  // It tells the client that this was all, and ends with what comes next, be it more of the request.
  tls_->async_shutdown([self = shared_from_this()](const Code&) { self->drop_input(); });
}

void Connection::drop_input() {
  if (state_ != State::lingering)
    return;
  Code ignored;
  // The read that went on under the answer: of two at once, one would not see the end.
  socket_.cancel(ignored);
  socket_.shutdown(Socket::shutdown_send, ignored);
  dropped_.resize(drop_step);
  drop_more();
}

void Connection::drop_more() {
  // Past TLS, if there is any: nobody wants to know what it is.
  socket_.async_read_some(asio::buffer(dropped_), [self = shared_from_this()](const Code& error, std::size_t) {
    if (error)
      return self->close();
    if (self->state_ == State::lingering)
      self->drop_more();
  });
}

void Connection::close() {
  if (state_ == State::closed)
    return;
  state_ = State::closed;
  // An error that did not get through is worth more than that it did not.
  if (line_)
    line_->end(line_->about.status < 400 ? client_has_gone : line_->about.status);
  line_.reset();
  leave_strangers();
  cancel();
  Code ignored;
  socket_.close(ignored);
  // Answer and body stay until the last handler has gone: a TLS operation that is done already goes on in them once
  // more.
  deadline_ = gpuactors::never;
  const auto self = shared_from_this();
  loop_->remove(*this);
}

void Connection::abandon() {
  state_ = State::closed;
  cancel();
  ticket_ = nullptr;
  Code ignored;
  socket_.close(ignored);
}

} // namespace serve
