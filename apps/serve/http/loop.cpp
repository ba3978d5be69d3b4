#include <apps/serve/http/connection.hpp>
#include <apps/serve/http/loop.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <system_error>
#include <utility>
#include <vector>

namespace serve {

namespace {

using namespace std::chrono_literals;

/// Often enough for the shortest time that something may take.
gpuactors::Duration tick_period(const FrontLimits& limits) {
  return std::clamp<gpuactors::Duration>(std::min({limits.idle, limits.greeting, limits.transfer}) / 8, 5ms, 500ms);
}

} // namespace

Loop::Loop(std::shared_ptr<FrontState> state, std::shared_ptr<Strangers> strangers,
           std::shared_ptr<boost::asio::ssl::context> tls)
  : state_(std::move(state)), strangers_(std::move(strangers)), tls_(std::move(tls)), api_(state_),
    period_(tick_period(state_->options.limits)) {
  // nop
}

Loop::~Loop() {
  stop();
}

gpuactors::Result<void> Loop::start() {
  tick();
  try {
    thread_ = std::thread{[this] { context_.run(); }};
  } catch (const std::system_error& error) {
    return gpuactors::fail(gpuactors::Errc::unavailable, fmt::format("the HTTP front has no thread: {}", error.what()));
  }
  return {};
}

void Loop::stop() {
  {
    const std::lock_guard lock{mutex_};
    if (std::exchange(ended_, true))
      return;
  }
  context_.stop();
  if (thread_.joinable())
    thread_.join();
  // What is left holds the loop; it is let go here so that the loop can end.
  for (const auto& [address, connection] : std::exchange(connections_, {}))
    connection->abandon();
  // What was begun ends now, without effect; its handlers hold the loop too.
  context_.restart();
  context_.poll();
}

std::shared_ptr<Connection> Loop::add(Socket socket, std::optional<Strangers::Key> stranger) {
  auto connection = std::make_shared<Connection>(shared_from_this(), std::move(socket), stranger);
  connections_.emplace(connection.get(), connection);
  connection->start();
  return connection;
}

void Loop::remove(const Connection& connection) {
  if (connections_.erase(&connection) > 0)
    state_->http_connections.fetch_sub(1, std::memory_order_relaxed);
}

void Loop::drain() {
  std::vector<std::shared_ptr<Connection>> all;
  for (const auto& [address, connection] : connections_)
    all.push_back(connection);
  for (const auto& connection : all)
    connection->drain();
}

void Loop::cancel() {
  for (const auto& [address, connection] : connections_)
    connection->cancel();
}

void Loop::tick() {
  const auto now = gpuactors::Clock::now();
  std::vector<std::shared_ptr<Connection>> late;
  for (const auto& [address, connection] : connections_)
    if (connection->deadline() <= now)
      late.push_back(connection);
  for (const auto& connection : late)
    connection->expire();
  ticker_.expires_after(period_);
  ticker_.async_wait([this](const boost::system::error_code& error) {
    if (!error)
      tick();
  });
}

} // namespace serve
