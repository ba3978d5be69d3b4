// Links: what is sent on a connection that has just come to be arrives, from whichever thread.
#include "system.hpp"

#include <gpuactors/wire/lanes.hpp>

#include <support/catch.hpp>

#include <condition_variable>
#include <future>
#include <set>

using namespace gpuactors;
using namespace gpuactors::test;
using namespace std::chrono_literals;

namespace {

/// What each process of a cluster has; several of them in this one. Its actor keeps the numbers and the handles that it
/// is sent.
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
    links_.reset();
    caf::anon_send_exit(actor_, caf::exit_reason::kill);
    actor_ = nullptr;
    met_ = nullptr;
    system_.get().await_all_actors_done();
  }

  [[nodiscard]] const caf::strong_actor_ptr& actor() const {
    return actor_;
  }

  /// Begins to connect to `other`. What becomes of it is given to `done`, on another thread.
  void dial(const Process& other, Links::OnConnected done) {
    links_->connect(other.address_, 20s, std::move(done));
  }

  caf::strong_actor_ptr connect(const Process& other) {
    std::promise<Result<caf::strong_actor_ptr>> connected;
    dial(other, [&](Result<caf::strong_actor_ptr> handle) { connected.set_value(std::move(handle)); });
    auto handle = connected.get_future().get();
    REQUIRE(handle);
    return *handle;
  }

  /// Sends at once, without a word to another thread, as soon as there is a lane.
  void send(const caf::strong_actor_ptr& to, std::uint64_t number) {
    v1::CancelCall message;
    message.set_call(number);
    const auto patience = Clock::now() + 20s;
    auto sent = Lanes::Sent::not_here;
    // No pause: the first words of the connection are sent by another thread, and this one is to be faster.
    while (sent == Lanes::Sent::not_here && Clock::now() < patience)
      sent = links_->lanes()->send(to, actor_, 0, message);
    REQUIRE(sent == Lanes::Sent::done);
  }

  /// Tells `to` of an actor.
  void introduce(const caf::strong_actor_ptr& to, const caf::strong_actor_ptr& actor) {
    caf_version::enqueue(to, actor_, 0, v1::Hello{}, actor);
  }

  bool gets(std::uint64_t number) {
    std::unique_lock lock{mutex_};
    return changed_.wait_for(lock, 5s, [&] { return numbers_.count(number) == 1; });
  }

  /// Takes the handle that it was told of.
  caf::strong_actor_ptr meets() {
    std::unique_lock lock{mutex_};
    REQUIRE(changed_.wait_for(lock, 5s, [&] { return met_ != nullptr; }));
    return std::exchange(met_, nullptr);
  }

private:
  caf::behavior behave() {
    return {
        [this](const v1::CancelCall& message) {
          const std::lock_guard lock{mutex_};
          numbers_.insert(message.call());
          changed_.notify_one();
        },
        [this](const v1::Hello&, const caf::strong_actor_ptr& actor) {
          const std::lock_guard lock{mutex_};
          met_ = actor;
          changed_.notify_one();
        },
    };
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::set<std::uint64_t> numbers_;
  caf::strong_actor_ptr met_;
  System system_{LinkOptions{}};
  caf::strong_actor_ptr actor_ =
      caf::actor_cast<caf::strong_actor_ptr>(system_.get().spawn([this] { return behave(); }));
  RequestPort port_{system_.get(), [](caf_version::Content&) {}};
  std::unique_ptr<Links> links_;
  Endpoint address_;
};

} // namespace

#if GPUACTORS_CAF_017
// The lanes are the way of calls with this version only.
TEST_CASE("a message sent the moment that there is a lane comes after the words with which its connection begins",
          "[wire]") {
  Process both_know;
  Process waiting;
  waiting.introduce(waiting.connect(both_know), waiting.actor());
  const auto told = both_know.meets();
  for (std::uint64_t number = 1; number <= 20; ++number) {
    INFO("connection " << number);
    Process dialling;
    dialling.introduce(dialling.connect(both_know), dialling.actor());
    both_know.introduce(told, both_know.meets());
    const auto known = waiting.meets();
    dialling.dial(waiting, [](const Result<caf::strong_actor_ptr>&) {});
    waiting.send(known, number);
    CHECK(dialling.gets(number));
  }
}
#endif
