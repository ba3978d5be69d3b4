// TaskDispatcher against a broker and runners that answer on the thread that asks them.
#include "fixtures.hpp"

#include <gpuactors/cluster/detail/broker_link.hpp>
#include <gpuactors/cluster/detail/task_dispatcher.hpp>
#include <gpuactors/cluster/pending.hpp>
#include <gpuactors/wire/request_port.hpp>

#include <support/catch.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

using namespace gpuactors;
using namespace gpuactors::test;

namespace {

using Handle = std::function<void(caf::mailbox_element&, const caf::strong_actor_ptr&)>;

/// Takes messages also when it has ended, which CAF 1.x would drop.
class PuppetActor : public caf::actor_companion {
public:
  PuppetActor(caf::actor_config& config, Handle handle) : caf::actor_companion(config), handle_(std::move(handle)) {
    // nop
  }

  using caf::actor_companion::enqueue;

  caf_version::EnqueueResult enqueue(caf::mailbox_element_ptr element, caf_version::RunnerBase*) override {
    if (handle_)
      handle_(*element, caf::actor_cast<caf::strong_actor_ptr>(this));
    return caf_version::EnqueueResult(true);
  }

  void forget() {
    handle_ = {};
  }

private:
  Handle handle_;
};

/// An actor without a thread: whoever sends it a message runs `handle`.
class Puppet {
public:
  Puppet(caf::actor_system& system, Handle handle)
    : actor_(caf::actor_cast<caf::strong_actor_ptr>(system.spawn<PuppetActor, caf::hidden>(std::move(handle)))) {
    // nop
  }

  Puppet(const Puppet&) = delete;
  Puppet& operator=(const Puppet&) = delete;

  ~Puppet() {
    end();
    puppet()->forget();
  }

  /// Messages that are sent to it all the same are still handled.
  void end() const {
    puppet()->cleanup(caf::make_error(caf::exit_reason::user_shutdown), nullptr);
  }

  [[nodiscard]] const caf::strong_actor_ptr& actor() const noexcept {
    return actor_;
  }

private:
  [[nodiscard]] PuppetActor* puppet() const {
    return caf::actor_cast<PuppetActor*>(actor_);
  }

  caf::strong_actor_ptr actor_;
};

template <class... Ts>
void reply(const caf::mailbox_element& request, const caf::strong_actor_ptr& from, Ts&&... xs) {
  caf_version::enqueue(request.sender, from, request.mid.response_id().integer_value(), std::forward<Ts>(xs)...);
}

} // namespace

TEST_CASE("each attempt of a task is sent under its own id, also one that comes behind the next", "[cluster]") {
  auto cluster = embed();
  auto& system = cluster.system();
  RequestPort port{system, [](MessageContent&) {}};

  struct Sent {
    RequestPort::Ticket ticket;
    CallId id;
  };
  std::optional<Sent> first;
  std::optional<Sent> second;
  const auto sent = [](const caf::mailbox_element& element) {
    return Sent{element.mid.request_id().integer_value(), element.content().get_as<Call>(0).id};
  };
  // It ends before the task gets to it, but after the dispatcher has chosen it.
  const Puppet dead{system, [&](const auto& element, const auto&) { first = sent(element); }};
  dead.end();
  const Puppet runner{system, [&](const auto& element, const auto& self) {
                        CHECK_FALSE(first); // the dead one gets it afterwards
                        second = sent(element);
                        reply(element, self, Payload::of(text("done")));
                      }};
  std::uint64_t leases = 0;
  const Puppet broker{system, [&](const auto& element, const auto& self) {
                        if (!element.content().template match_elements<v1::AcquireLease>())
                          return;
                        v1::Granted granted;
                        granted.mutable_lease()->set_id(++leases);
                        reply(element, self, granted, leases == 1 ? dead.actor() : runner.actor(), runner.actor());
                      }};
  const auto link = std::make_shared<detail::BrokerLink>(port, [] { return v1::Hello{}; });
  link->attach(broker.actor());
  const auto dispatcher = std::make_shared<detail::TaskDispatcher>(port, link, nullptr, 1);

  const auto task = std::make_shared<detail::WorkState<Payload, detail::PendingTask>>();
  task->call.method = "anything";
  task->retries_left = 1;
  dispatcher->submit(task, std::make_shared<const detail::TaskShape>(), {}, {});
  REQUIRE(task->finished());
  CHECK(Future<Payload>{task}.get().has_value());
  REQUIRE(first);
  REQUIRE(second);
  CHECK(first->ticket != second->ticket);
  CHECK(first->id == port.call_id(first->ticket));
  CHECK(second->id == port.call_id(second->ticket));

  dispatcher->close();
  link->close();
  port.close();
}
