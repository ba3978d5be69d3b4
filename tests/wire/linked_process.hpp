// What each process of a cluster has, for tests with several of them in one.
#pragma once

#include "system.hpp"

#include <support/catch.hpp>

#include <future>
#include <memory>
#include <utility>

namespace gpuactors::test {

/// Whether there was an answer.
class Asker : public PendingReply {
public:
  void on_reply(MessageContent&) override {
    answered_.set_value(true);
  }

  void on_error(Error) override {
    answered_.set_value(false);
  }

  bool wait() {
    return answered_.get_future().get();
  }

private:
  std::promise<bool> answered_;
};

/// One with an actor that answers ticks.
class LinkedProcess {
public:
  explicit LinkedProcess(const LinkOptions& options = {}, const System::Configure& configure = {})
    : system_(options, configure) {
    auto links = Links::make(system_.get(), port_, options);
    REQUIRE(links);
    links_ = std::move(*links);
    const auto port = links_->publish(actor_, {"127.0.0.1", 0});
    REQUIRE(port);
    address_ = {"127.0.0.1", *port};
  }

  LinkedProcess(const LinkedProcess&) = delete;
  LinkedProcess& operator=(const LinkedProcess&) = delete;

  ~LinkedProcess() {
    port_.close();
    links_->lanes()->watch(nullptr);
    links_.reset();
    caf::anon_send_exit(actor_, caf::exit_reason::kill);
    actor_ = nullptr;
    system_.get().await_all_actors_done();
  }

  [[nodiscard]] const Endpoint& address() const noexcept {
    return address_;
  }

  [[nodiscard]] const caf::strong_actor_ptr& actor() const noexcept {
    return actor_;
  }

  [[nodiscard]] caf::actor_system& system() {
    return system_.get();
  }

  [[nodiscard]] RequestPort& port() noexcept {
    return port_;
  }

  [[nodiscard]] Links& links() noexcept {
    return *links_;
  }

  [[nodiscard]] std::future<Result<caf::strong_actor_ptr>> connect_async(const Endpoint& to) {
    auto connected = std::make_shared<std::promise<Result<caf::strong_actor_ptr>>>();
    auto future = connected->get_future();
    links_->connect(to, std::chrono::seconds{20},
                    [connected](Result<caf::strong_actor_ptr> handle) { connected->set_value(std::move(handle)); });
    return future;
  }

  caf::strong_actor_ptr connect(const LinkedProcess& other) {
    auto handle = connect_async(other.address_).get();
    REQUIRE(handle);
    return *handle;
  }

  /// Whether `to` answers.
  bool ask(const caf::strong_actor_ptr& to) {
    const auto asker = std::make_shared<Asker>();
    port_.ask(asker, to, deadline_after(Clock::now(), std::chrono::seconds{5}), v1::Tick{});
    return asker->wait();
  }

private:
  static caf::behavior answering(caf::event_based_actor* self, const v1::Done& answer) {
    self->set_default_handler(caf::drop);
    return {[answer](const v1::Tick&) { return answer; }};
  }

  System system_;
  // With an argument: CAF 0.17 binds a reference to null where there is none.
  caf::strong_actor_ptr actor_ = caf::actor_cast<caf::strong_actor_ptr>(system_.get().spawn(answering, v1::Done{}));
  RequestPort port_{system_.get(), [](MessageContent&) {}};
  std::unique_ptr<Links> links_;
  Endpoint address_;
};

} // namespace gpuactors::test
