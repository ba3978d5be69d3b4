// OwnThreads: an actor runs on its thread and nowhere else, nothing else runs there, and the thread ends with it.
#include "system.hpp"

#include <gpuactors/wire/own_threads.hpp>

#include <support/catch.hpp>

#include <atomic>
#include <future>
#include <set>
#include <thread>

using namespace gpuactors;
using namespace gpuactors::test;

namespace {

/// What the actors of a test have seen.
struct Seen {
  std::mutex mutex;
  std::set<std::thread::id> threads;
  std::atomic<int> messages{0};
  std::atomic<int> destroyed{0};
  std::promise<void> enough;

  /// @param wanted messages in all, after which `enough` is set.
  void note(int wanted) {
    {
      const std::lock_guard lock{mutex};
      threads.insert(std::this_thread::get_id());
    }
    if (++messages == wanted)
      enough.set_value();
  }
};

/// Notes each tick and, with a partner, passes it on until its number is zero.
class Noting : public OwnThreads::ActorBase {
public:
  Noting(caf::actor_config& config, OwnThreads::Thread thread, std::shared_ptr<Seen> seen, int wanted,
         caf::actor partner = {})
    : OwnThreads::ActorBase(config, std::move(thread)), seen_(std::move(seen)), wanted_(wanted),
      partner_(std::move(partner)) {
    // nop
  }

  ~Noting() override {
    ++seen_->destroyed;
  }

  caf::behavior make_behavior() override {
    return {
        [this](v1::Tick& tick) {
          seen_->note(wanted_);
          if (tick.id() == 0 || !partner_)
            return;
          tick.set_id(tick.id() - 1);
          caf_version::ask(this, partner_, tick).then([this](const v1::Tick& back) {
            seen_->note(wanted_);
            caf_version::post(caf::actor{this}, back);
          });
        },
        [this](const v1::Done&) { quit(); },
    };
  }

private:
  std::shared_ptr<Seen> seen_;
  int wanted_;
  caf::actor partner_;
};

/// Whether `seen` has had enough before long.
bool had_enough(Seen& seen) {
  return seen.enough.get_future().wait_for(std::chrono::minutes{1}) == std::future_status::ready;
}

v1::Tick tick(std::uint64_t id = 0) {
  v1::Tick message;
  message.set_id(id);
  return message;
}

} // namespace

TEST_CASE("an actor with a thread of its own gets each message there, from any number of threads", "[own_threads]") {
  System system;
  OwnThreads threads;
  const auto seen = std::make_shared<Seen>();
  constexpr int senders = 4;
  constexpr int each = 5'000;
  auto actor = *threads.spawn<Noting>(system.get(), seen, senders * each);
  std::vector<std::thread> sending;
  for (int i = 0; i < senders; ++i)
    sending.emplace_back([&] {
      for (int k = 0; k < each; ++k)
        caf_version::post(actor, tick());
    });
  for (auto& thread : sending)
    thread.join();
  REQUIRE(had_enough(*seen));
  CHECK(seen->threads.size() == 1);
  CHECK(seen->threads.count(std::this_thread::get_id()) == 0);
  caf_version::post(actor, v1::Done{});
  threads.join();
  actor = {};
  CHECK(seen->destroyed == 1);
  CHECK(seen->messages == senders * each);
}

TEST_CASE("a message that comes just when the thread goes to sleep is heard", "[own_threads]") {
  System system;
  OwnThreads threads;
  const auto echo = [&] {
    const auto seen = std::make_shared<Seen>();
    return std::pair{seen, *threads.spawn<Noting>(system.get(), seen, -1)};
  };
  const auto ask_often = [](Seen& seen, const caf::actor& actor) {
    // Around the time for which a thread looks before it sleeps.
    for (int i = 0; i < 2'000; ++i) {
      caf_version::post(actor, tick());
      const auto give_up = Clock::now() + std::chrono::minutes{1};
      while (seen.messages <= i && Clock::now() < give_up)
        std::this_thread::yield();
      if (seen.messages <= i)
        return false;
      const auto next = Clock::now() + std::chrono::microseconds{i % 100};
      while (Clock::now() < next) {
        // nop
      }
    }
    return true;
  };
  auto [first_seen, first] = echo();
  auto [second_seen, second] = echo();
  auto other =
      std::async(std::launch::async, [&, &seen = second_seen, &actor = second] { return ask_often(*seen, actor); });
  CHECK(ask_often(*first_seen, first));
  CHECK(other.get());
  caf_version::post(first, v1::Done{});
  caf_version::post(second, v1::Done{});
}

TEST_CASE("what an actor with a thread of its own sends to others runs elsewhere, and the answer on its own",
          "[own_threads]") {
  System system;
  OwnThreads threads;
  const auto seen = std::make_shared<Seen>();
  const auto partner_seen = std::make_shared<Seen>();
  const auto partner = [](const std::shared_ptr<Seen>& heard) -> caf::behavior {
    return {[heard](const v1::Tick& asked) {
      heard->note(-1);
      return asked;
    }};
  };
  const auto scheduled = system.get().spawn(partner, partner_seen);
  constexpr int turns = 1'000;
  auto actor = *threads.spawn<Noting>(system.get(), seen, 2 * turns + 1, scheduled);
  caf_version::post(actor, tick(turns));
  REQUIRE(had_enough(*seen));
  caf_version::post(actor, v1::Done{});
  threads.join();
  CHECK(seen->threads.size() == 1);
  REQUIRE(partner_seen->threads.size() == 1);
  CHECK(*partner_seen->threads.begin() != *seen->threads.begin());
}

TEST_CASE("a thread ends with its actor: one that quits, one that is told to, one that nobody knows any more",
          "[own_threads]") {
  System system;
  OwnThreads threads;
  const auto seen = std::make_shared<Seen>();
  for (int round = 0; round < 100; ++round) {
    auto quits = *threads.spawn<Noting>(system.get(), seen, -1);
    caf_version::post(quits, v1::Done{});
    auto told = *threads.spawn<Noting>(system.get(), seen, -1);
    caf::anon_send_exit(told, caf::exit_reason::user_shutdown);
    auto forgotten = *threads.spawn<Noting>(system.get(), seen, -1);
    caf_version::post(forgotten, tick());
  }
  threads.join();
  CHECK(seen->destroyed == 300);
  CHECK(seen->messages == 100);
}

TEST_CASE("without a thread for it an actor is refused, and the next one is made when there is one", "[own_threads]") {
  System system;
  bool any = true;
  OwnThreads threads{[&](std::function<void()> body) {
    if (!any)
      throw std::system_error{std::make_error_code(std::errc::resource_unavailable_try_again)};
    return std::thread{std::move(body)};
  }};
  const auto seen = std::make_shared<Seen>();
  for (int round = 0; round < 3; ++round) {
    any = true;
    const auto actor = threads.spawn<Noting>(system.get(), seen, -1);
    REQUIRE(actor);
    any = false;
    const auto refused = threads.spawn<Noting>(system.get(), seen, -1);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code() == Errc::unavailable);
    CHECK(refused.error().message().find("needs a thread of its own, and there is none beside the 1 that run")
          != std::string::npos);
    caf_version::post(*actor, v1::Done{});
    threads.join();
  }
}

TEST_CASE("an actor whose constructor fails leaves no thread behind", "[own_threads]") {
  class Failing : public OwnThreads::ActorBase {
  public:
    Failing(caf::actor_config& config, OwnThreads::Thread thread) : OwnThreads::ActorBase(config, std::move(thread)) {
      throw std::runtime_error("no");
    }
  };
  System system;
  OwnThreads threads;
  CHECK_THROWS_AS(threads.spawn<Failing>(system.get()), std::runtime_error);
  threads.join();
}
