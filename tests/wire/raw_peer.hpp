// Whoever is at the other end of a connection, or at a port, whose bytes a test writes and reads itself.
#pragma once

#include <gpuactors/wire/transport/channel.hpp>

#include <support/results.hpp>

#include <poll.h>

#include <cstddef>
#include <future>
#include <list>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

namespace gpuactors::test {

inline TimePoint soon() {
  return deadline_after(Clock::now(), std::chrono::seconds{20});
}

/// A connection.
class RawPeer {
public:
  explicit RawPeer(transport::Descriptor socket, std::optional<transport::TlsContext> tls = {})
    : channel_(std::move(socket), stop_) {
    if (tls)
      must(channel_.secure(*tls, transport::TlsPart::connects_to_node, soon()));
  }

  explicit RawPeer(const Endpoint& to, std::optional<transport::TlsContext> tls = {})
    : RawPeer(must(transport::connect_tcp(to, dialling(), soon())), std::move(tls)) {
    // nop
  }

  void say(std::string_view bytes) {
    static_cast<void>(
        channel_.write_all(reinterpret_cast<const std::byte*>(bytes.data()), bytes.size(), Duration::max(), soon()));
  }

  /// What comes up to the end of a line, or of the connection.
  std::string line() {
    std::string text;
    std::byte next{};
    while (!text.ends_with('\n') && channel_.read_some(&next, 1, soon()))
      text += static_cast<char>(next);
    return text;
  }

  /// The next bytes, as many as `count`; fewer if the connection ends.
  std::string bytes(std::size_t count) {
    std::string text;
    std::byte next{};
    while (text.size() < count && channel_.read_some(&next, 1, soon()))
      text += static_cast<char>(next);
    return text;
  }

  /// Whether the other side ends the connection, whatever it says before.
  bool is_sent_away() {
    std::byte ignored{};
    auto read = channel_.read_some(&ignored, 1, soon());
    while (read)
      read = channel_.read_some(&ignored, 1, soon());
    return read.error().code() == Errc::worker_died;
  }

private:
  static transport::Signal& dialling() {
    static transport::Signal never_set = must(transport::Signal::make());
    return never_set;
  }

  transport::Signal stop_ = must(transport::Signal::make());
  transport::Channel channel_;
};

/// A port that says `line` to all who connect, one after the other, hears a line of each, and says nothing more.
class RawPort {
public:
  explicit RawPort(std::string line) : listener_(must(transport::listen_tcp({"127.0.0.1", 0}))) {
    thread_ = std::thread{[this, line = std::move(line)] {
      for (bool is_first = true; transport::wait_for(listener_.socket.get(), POLLIN, stop_, never); is_first = false) {
        auto& peer = peers_.emplace_back(must(transport::accept_next(listener_.socket.get())));
        peer.say(line);
        auto answer = peer.line();
        if (is_first)
          answer_.set_value(std::move(answer));
      }
    }};
  }

  ~RawPort() {
    stop_.set();
    thread_.join();
  }

  [[nodiscard]] Endpoint address() const {
    return {"127.0.0.1", listener_.port};
  }

  /// What the first one said. Call it once.
  std::string answer() {
    return answer_.get_future().get();
  }

private:
  transport::TcpListener listener_;
  transport::Signal stop_ = must(transport::Signal::make());
  std::promise<std::string> answer_;
  std::list<RawPeer> peers_;
  std::thread thread_;
};

} // namespace gpuactors::test
