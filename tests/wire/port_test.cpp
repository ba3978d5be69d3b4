// RequestPort: every request is answered exactly once, whatever happens to its receiver.
#include "system.hpp"

#include <gpuactors/wire/detail/receiver_lists.hpp>
#include <gpuactors/wire/request_port.hpp>

#include <support/catch.hpp>
#include <support/no_threads.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <deque>
#include <future>
#include <set>
#include <system_error>
#include <thread>
#include <vector>

using namespace gpuactors;
using namespace gpuactors::test;
using namespace std::chrono_literals;

namespace {

/// Counts its answers and keeps the first.
class Waiter : public PendingReply {
public:
  void on_reply(MessageContent&) override {
    if (++answers_ == 1)
      first_.set_value({});
  }

  void on_error(Error error) override {
    if (++answers_ == 1)
      first_.set_value(fail(std::move(error)));
  }

  /// The error of the first answer, or none for a reply.
  Result<void> wait() {
    return first_.get_future().get();
  }

  /// The code of the error that the first answer is.
  Errc wait_error() {
    const auto answer = wait();
    return answer ? Errc::none : answer.error().code();
  }

  [[nodiscard]] int answers() const {
    return answers_;
  }

private:
  std::promise<Result<void>> first_;
  std::atomic<int> answers_{0};
};

/// Answers ticks; keeps what else it is asked.
caf::behavior silent(caf::event_based_actor* self, std::shared_ptr<std::vector<caf::response_promise>> kept) {
  return {
      [](const v1::Tick&) { return v1::Done{}; },
      [self, kept](const v1::KillActor&) {
        kept->push_back(self->make_response_promise());
        return kept->back();
      },
      [self](const v1::Done&) { self->quit(); },
  };
}

struct Scene {
  System system;
  RequestPort port{system.get(), [](MessageContent&) {}};
  std::shared_ptr<std::vector<caf::response_promise>> kept = std::make_shared<std::vector<caf::response_promise>>();
  caf::strong_actor_ptr actor = caf::actor_cast<caf::strong_actor_ptr>(system.get().spawn(silent, kept));
  std::shared_ptr<Waiter> waiter = std::make_shared<Waiter>();

  /// Returns when it has ended.
  void end_actor() const {
    std::promise<void> ended;
    actor->get()->attach_functor([&] { ended.set_value(); });
    caf_version::enqueue(actor, nullptr, 0, v1::Done{});
    ended.get_future().wait();
  }

  ~Scene() {
    caf::anon_send_exit(actor, caf::exit_reason::kill);
    actor = nullptr;
  }
};

} // namespace

TEST_CASE("a port that gets no thread leaves nothing behind in its system", "[wire]") {
  System system;
  const auto make_port = [&] { RequestPort{system.get(), [](MessageContent&) {}}.close(); };
  {
    const NoThreads none;
    CHECK_THROWS_AS(make_port(), std::system_error);
  }
  CHECK_NOTHROW(make_port());
}

TEST_CASE("a reply answers the request that it belongs to", "[wire]") {
  Scene scene;
  scene.port.ask(scene.waiter, scene.actor, never, v1::Tick{});
  CHECK(scene.waiter->wait().has_value());
  CHECK(scene.port.pending() == 0);
}

TEST_CASE("a request without an answer ends at its deadline", "[wire]") {
  Scene scene;
  scene.port.ask(scene.waiter, scene.actor, Clock::now(), v1::KillActor{});
  CHECK(scene.waiter->wait_error() == Errc::deadline_exceeded);
  CHECK(scene.port.pending() == 0);
}

TEST_CASE("the death of the receiver fails what waits for it, at once", "[wire]") {
  Scene scene;
  scene.port.watch(scene.actor, Error{Errc::worker_died, "the worker ended"});
  scene.port.ask(scene.waiter, scene.actor, never, v1::KillActor{});
  caf_version::enqueue(scene.actor, nullptr, 0, v1::Done{});
  const auto code = scene.waiter->wait_error();
  // The watcher, or CAF's own answer to a request that found the mailbox closed: whichever comes first.
  CHECK((code == Errc::worker_died || code == Errc::actor_died));
  CHECK(scene.waiter->answers() == 1);
}

TEST_CASE("the death of a receiver fails what waits for it, in its order, and nothing that waits for others",
          "[wire]") {
  /// Writes down that it has failed.
  class Listed : public PendingReply {
  public:
    Listed(std::vector<int>& failed, int number) : failed_(failed), number_(number) {
      // nop
    }
    void on_reply(MessageContent&) override {
      // nop
    }
    void on_error(Error) override {
      failed_.push_back(number_);
    }

  private:
    std::vector<int>& failed_;
    const int number_;
  };
  std::vector<int> failed; // outlives what waits
  Scene scene;
  // More than there are lists, so that some share one.
  std::vector<caf::strong_actor_ptr> receivers(1'000, nullptr);
  for (auto& receiver : receivers)
    receiver = caf::actor_cast<caf::strong_actor_ptr>(scene.system.get().spawn(silent, scene.kept));
  std::vector<RequestPort::Ticket> first;
  for (int round = 0; round < 5; ++round)
    for (int i = 0; i < 1'000; ++i) {
      const auto ticket = scene.port.add(std::make_shared<Listed>(failed, 1'000 * round + i), receivers[i], never);
      REQUIRE(ticket.has_value());
      if (round == 0)
        first.push_back(*ticket);
    }
  // One that outlives its receivers waits for nobody in particular.
  REQUIRE(scene.port.add(scene.waiter, nullptr, never));
  CHECK(scene.port.forget(first[7]));
  const auto fail_for = [&](int receiver) {
    failed.clear();
    scene.port.fail_receiver(caf::actor_cast<caf::actor_addr>(receivers[receiver]),
                             Error{Errc::worker_died, "as the test says"});
    return failed;
  };
  CHECK(fail_for(7) == std::vector{1'007, 2'007, 3'007, 4'007});
  CHECK(fail_for(7).empty());
  CHECK(fail_for(8) == std::vector{8, 1'008, 2'008, 3'008, 4'008});
  CHECK(scene.port.pending() == 4'991);
  CHECK(scene.waiter->answers() == 0);
  scene.port.close();
  CHECK(fail_for(9).empty());
  for (const auto& receiver : receivers)
    caf::anon_send_exit(receiver, caf::exit_reason::kill);
}

TEST_CASE("requests are listed by receiver until they are taken out, in any order", "[wire]") {
  struct Request : detail::ReceiverLink {
    const void* receiver = nullptr;
  };
  const std::array<int, 2> receivers{};
  detail::ReceiverLists lists;
  std::deque<Request> requests(100);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    requests[i].receiver = &receivers[i % 2];
    lists.add(requests[i].receiver, requests[i]);
  }
  const auto listed = [&](const void* receiver) {
    std::set<const Request*> found;
    lists.each(receiver, [&](const detail::ReceiverLink& link) {
      if (const auto& request = static_cast<const Request&>(link); request.receiver == receiver)
        found.insert(&request);
    });
    return found;
  };
  CHECK(listed(&receivers[0]).size() == 50);
  // The first, the last and one between; and one twice.
  for (const std::size_t i : {98, 0, 50, 50})
    detail::ReceiverLists::remove(requests[i]);
  CHECK(listed(&receivers[0]).size() == 47);
  CHECK(listed(&receivers[0]).count(&requests[50]) == 0);
  CHECK(listed(&receivers[1]).size() == 50);
  for (auto& request : requests)
    detail::ReceiverLists::remove(request);
  CHECK(listed(&receivers[0]).empty());
  CHECK(listed(&receivers[1]).empty());
  lists.add(requests[0].receiver, requests[0]);
  CHECK(listed(&receivers[0]) == std::set<const Request*>{&requests[0]});
}

TEST_CASE("a request to an actor that is dead already is answered", "[wire]") {
  Scene scene;
  scene.end_actor();
  scene.port.ask(scene.waiter, scene.actor, never, v1::Tick{});
  CHECK(scene.waiter->wait_error() == Errc::actor_died);
  CHECK(scene.waiter->answers() == 1);
}

TEST_CASE("a request that outlives its receivers is answered by the next one", "[wire]") {
  Scene scene;
  scene.end_actor();
  const auto ticket = scene.port.add(scene.waiter, nullptr, never);
  REQUIRE(ticket.has_value());
  scene.port.deliver(*ticket, scene.actor, v1::Tick{});
  CHECK(scene.waiter->answers() == 0);
  scene.actor = caf::actor_cast<caf::strong_actor_ptr>(scene.system.get().spawn(silent, scene.kept));
  scene.port.deliver(*ticket, scene.actor, v1::Tick{});
  CHECK(scene.waiter->wait().has_value());
  CHECK(scene.waiter->answers() == 1);
}

TEST_CASE("a request that is abandoned is answered once, and a late reply is dropped", "[wire]") {
  Scene scene;
  const auto ticket = scene.port.add(scene.waiter, scene.actor, never);
  REQUIRE(ticket.has_value());
  scene.port.abandon(*ticket, Error{Errc::cancelled, "no longer wanted"});
  scene.port.deliver(*ticket, scene.actor, v1::Tick{});
  CHECK(scene.waiter->wait_error() == Errc::cancelled);
  scene.port.abandon(*ticket, Error{Errc::internal, "twice"});
  const auto next = std::make_shared<Waiter>();
  scene.port.ask(next, scene.actor, never, v1::Tick{});
  CHECK(next->wait().has_value());
  CHECK(scene.waiter->answers() == 1);
}

TEST_CASE("with as many calls under way as there may be, time still passes and the library still asks", "[wire]") {
  class Unheard : public PendingReply {
  public:
    void on_reply(MessageContent&) override {
      // nop
    }
    void on_error(Error) override {
      // nop
    }
  };
  class Greeting : public OwnReply {
  public:
    void on_reply(MessageContent&) override {
      answered.set_value();
    }
    void on_error(Error) override {
      // nop
    }
    std::promise<void> answered;
  };
  Scene scene;
  const auto unheard = std::make_shared<Unheard>();
  std::size_t under_way = 0;
  RequestPort::Ticket last = 0;
  for (auto ticket = scene.port.add(unheard, nullptr, never); ticket;
       ticket = scene.port.add(unheard, nullptr, never)) {
    ++under_way;
    last = *ticket;
  }
  CHECK(under_way == limits::calls_in_flight);
  std::promise<void> due;
  REQUIRE(scene.port.after(1ms, [&] { due.set_value(); }));
  due.get_future().wait();
  const auto greeting = std::make_shared<Greeting>();
  scene.port.ask(greeting, scene.actor, never, v1::Tick{});
  greeting->answered.get_future().wait();
  // Neither made room for a call; one that ends does.
  CHECK(scene.port.add(unheard, nullptr, never).error().code() == Errc::queue_full);
  CHECK(scene.port.forget(last));
  CHECK(scene.port.add(unheard, nullptr, never));
}

TEST_CASE("a request that is entered while the port closes is refused, not kept without an answer", "[wire]") {
  /// Closes the port between the moment that it is asked for a place and the one that it has one.
  class Closes : public Waiter {
  public:
    explicit Closes(RequestPort& port) : port_(port) {
      // nop
    }

    [[nodiscard]] bool counts() const noexcept override {
      port_.close();
      return true;
    }

  private:
    RequestPort& port_;
  };
  Scene scene;
  const auto late = std::make_shared<Closes>(scene.port);
  const auto ticket = scene.port.add(late, scene.actor, never);
  REQUIRE(!ticket.has_value());
  CHECK(ticket.error().code() == Errc::unavailable);
  CHECK(scene.port.pending() == 0);
}

TEST_CASE("the end of the port waits for what an actor's end calls, and calls nothing later", "[wire]") {
  Scene scene;
  std::promise<void> entered;
  std::promise<void> closing;
  std::atomic<bool> left{false};
  scene.port.watch(scene.actor, Error{Errc::worker_died, "the worker ended"}, [&] {
    entered.set_value();
    closing.get_future().wait();
    // Time in which a port that does not wait would be closed.
    for (int turn = 0; turn < 10'000; ++turn)
      std::this_thread::yield();
    left = true;
  });
  caf_version::enqueue(scene.actor, nullptr, 0, v1::Done{});
  entered.get_future().wait();
  closing.set_value();
  scene.port.close();
  CHECK(left);
  bool called = false;
  scene.port.on_end(scene.actor, [&](const caf::error&) { called = true; });
  CHECK_FALSE(called);
}

TEST_CASE("the end of the port answers all that waits and refuses what comes later", "[wire]") {
  Scene scene;
  scene.port.ask(scene.waiter, scene.actor, never, v1::KillActor{});
  scene.port.close();
  CHECK(scene.waiter->wait_error() == Errc::unavailable);
  const auto late = std::make_shared<Waiter>();
  scene.port.ask(late, scene.actor, never, v1::Tick{});
  CHECK(late->wait_error() == Errc::unavailable);
}
