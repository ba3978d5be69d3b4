// Links: a request on a connection that has just come to be is answered, and a redial that is stopped is silent.
#include "system.hpp"

#include <gpuactors/wire/lanes.hpp>

#include <support/catch.hpp>

// The lanes are the way of calls with this version only.
#if GPUACTORS_CAF_017

#include <caf/forwarding_actor_proxy.hpp>

#include <atomic>
#include <future>
#include <memory>
#include <thread>

using namespace gpuactors;
using namespace gpuactors::test;
using namespace std::chrono_literals;

namespace {

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

/// What each process of a cluster has; several of them in this one. Its actor answers ticks.
class Process {
public:
  Process() {
    auto links = Links::make(system_.get(), port_, {});
    REQUIRE(links);
    links_ = std::move(*links);
    const auto port = links_->publish(actor_, {"127.0.0.1", 0});
    REQUIRE(port);
    address_ = {"127.0.0.1", *port};
  }

  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  ~Process() {
    port_.close();
    links_->lanes()->watch(nullptr);
    links_.reset();
    caf::anon_send_exit(actor_, caf::exit_reason::kill);
    actor_ = nullptr;
    system_.get().await_all_actors_done();
  }

  caf::strong_actor_ptr connect(const Process& other) {
    std::promise<Result<caf::strong_actor_ptr>> connected;
    links_->connect(other.address_, 20s,
                    [&](Result<caf::strong_actor_ptr> handle) { connected.set_value(std::move(handle)); });
    auto handle = connected.get_future().get();
    REQUIRE(handle);
    return *handle;
  }

  /// Asks the actor of `other` the moment that there is a lane to it.
  void greet(const Process& other, const std::shared_ptr<Asker>& asker) {
    // A handle from before, as a process has that has heard of the actor from a third one.
    caf::actor_config config;
    auto to = caf::make_actor<caf::forwarding_actor_proxy, caf::strong_actor_ptr>(
        other.actor_->id(), other.actor_->node(), &system_.get(), config, caf::actor_cast<caf::actor>(actor_));
    links_->lanes()->watch([this, to = std::move(to), asker](const caf::node_id& node) {
      if (node == to->node())
        port_.ask(asker, to, deadline_after(Clock::now(), 5s), v1::Tick{});
    });
  }

  std::shared_ptr<Redial> redial(Redial::OnChange on_change) {
    return std::make_shared<Redial>(*links_, address_, std::move(on_change));
  }

private:
  static caf::behavior answering(caf::event_based_actor* self, const v1::Done& answer) {
    self->set_default_handler(caf::drop);
    return {[answer](const v1::Tick&) { return answer; }};
  }

  System system_{LinkOptions{}};
  // With an argument: CAF 0.17 binds a reference to null where there is none.
  caf::strong_actor_ptr actor_ = caf::actor_cast<caf::strong_actor_ptr>(system_.get().spawn(answering, v1::Done{}));
  RequestPort port_{system_.get(), [](MessageContent&) {}};
  std::unique_ptr<Links> links_;
  Endpoint address_;
};

} // namespace

TEST_CASE("a request sent the moment that there is a lane comes after the words with which its connection begins",
          "[wire]") {
  Process accepting;
  Process dialling;
  const bool dials = GENERATE(true, false);
  const auto asker = std::make_shared<Asker>();
  if (dials)
    dialling.greet(accepting, asker);
  else
    accepting.greet(dialling, asker);
  const auto kept = dialling.connect(accepting);
  // One that comes before them has no sender, for CAF: its answer goes nowhere.
  CHECK(asker->wait());
}

TEST_CASE("who stops a redial waits for what it calls, and it calls nobody afterwards", "[wire]") {
  Process process;
  const Error error{Errc::unavailable, "no answer"};
  std::promise<void> begun;
  std::atomic<int> ended{0};
  const auto copies = std::make_shared<int>();
  const auto redial = process.redial([&begun, &ended, copies](const Result<caf::strong_actor_ptr>&) {
    begun.set_value();
    // Until the redial, which is being stopped, has dropped its own copy of this function.
    while (copies.use_count() > 2)
      std::this_thread::yield();
    ++ended;
  });
  std::thread teller{[&] { redial->again(error); }};
  begun.get_future().wait();
  redial->stop();
  CHECK(ended == 1);
  teller.join();
  redial->again(error);
  redial->stop();
  CHECK(ended == 1);
}

TEST_CASE("a redial may be stopped by what it calls, and by what that calls", "[wire]") {
  Process process;
  const Error error{Errc::unavailable, "no answer"};
  std::shared_ptr<Redial> redial;
  int told = 0;
  redial = process.redial([&](const Result<caf::strong_actor_ptr>&) {
    if (++told == 1)
      redial->again(error);
    else
      redial->stop();
  });
  redial->again(error);
  redial->again(error);
  CHECK(told == 2);
}

#endif
