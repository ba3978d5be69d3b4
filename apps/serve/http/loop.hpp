// One thread of the HTTP front and the connections that live on it.
#pragma once

#include <apps/serve/http/api.hpp>
#include <apps/serve/http/strangers.hpp>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/steady_timer.hpp>

#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_map>
#include <utility>

namespace serve {

class Connection;

/// A socket without the detours of one that could belong to any kind of loop.
using Socket = boost::asio::basic_stream_socket<boost::asio::ip::tcp, boost::asio::io_context::executor_type>;

/// All members but the constructor, `start`, `stop` and `post` belong to the loop's own thread.
class Loop : public std::enable_shared_from_this<Loop> {
public:
  /// @param tls Null for plain connections.
  Loop(std::shared_ptr<FrontState> state, std::shared_ptr<Strangers> strangers,
       std::shared_ptr<boost::asio::ssl::context> tls);
  /// Stops the loop. Not on its own thread.
  ~Loop();

  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  /// @returns `unavailable` if there is no thread for it.
  gpuactors::Result<void> start();

  /// Ends the thread, whatever its connections do. Idempotent.
  void stop();

  /// Has the loop's thread do something, unless it has ended. Any thread.
  template <class Work>
  void post(Work work) {
    const std::lock_guard lock{mutex_};
    if (!ended_)
      boost::asio::post(context_, std::move(work));
  }

  [[nodiscard]] boost::asio::io_context& context() noexcept {
    return context_;
  }

  [[nodiscard]] const std::shared_ptr<FrontState>& state() const noexcept {
    return state_;
  }

  [[nodiscard]] const HttpApi& api() const noexcept {
    return api_;
  }

  [[nodiscard]] const std::shared_ptr<boost::asio::ssl::context>& tls() const noexcept {
    return tls_;
  }

  /// For connections that come from now on.
  void set_tls(std::shared_ptr<boost::asio::ssl::context> tls) noexcept {
    tls_ = std::move(tls);
  }

  [[nodiscard]] Strangers& strangers() const noexcept {
    return *strangers_;
  }

  /// @param stranger None: it is one too many, and shall only be told so.
  std::shared_ptr<Connection> add(Socket socket, std::optional<Strangers::Key> stranger);
  void remove(const Connection& connection);

  /// Has connections that wait for a request close, and the others when they have answered.
  void drain();
  /// Gives up all inferences.
  void cancel();

private:
  void tick();

  std::shared_ptr<FrontState> state_;
  std::shared_ptr<Strangers> strangers_;
  std::shared_ptr<boost::asio::ssl::context> tls_;
  HttpApi api_;
  // One thread only runs it; others post to it.
  boost::asio::io_context context_{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_{context_.get_executor()};
  boost::asio::steady_timer ticker_{context_};
  gpuactors::Duration period_;
  std::unordered_map<const Connection*, std::shared_ptr<Connection>> connections_;
  std::thread thread_;
  std::mutex mutex_;
  bool ended_ = false;
};

} // namespace serve
