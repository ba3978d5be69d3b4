// TaskDispatcher against a broker and runners that answer on the thread that asks them.
#include "fixtures.hpp"

#include <gpuactors/cluster/detail/broker_link.hpp>
#include <gpuactors/cluster/detail/message_reply.hpp>
#include <gpuactors/cluster/detail/task_dispatcher.hpp>
#include <gpuactors/cluster/pending.hpp>
#include <gpuactors/wire/errors.hpp>
#include <gpuactors/wire/request_port.hpp>

#include <support/catch.hpp>
#include <support/eventually.hpp>
#include <support/results.hpp>

#include <wire/system.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <set>
#include <string>
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

TEST_CASE("a lease is the client's own while its holder is looked up, and no longer when it has ended there",
          "[cluster]") {
  System system{LinkOptions{}};
  RequestPort port{system.get(), [](MessageContent&) {}};
  auto links = must(Links::make(system.get(), port, {}));
  struct Question {
    caf::strong_actor_ptr sender;
    std::uint64_t answer = 0;
  };
  // Asked on this thread at first, then on the port's.
  std::array<Question, 2> questions;
  std::atomic<std::size_t> asked{0};
  {
    const Puppet runner{system.get(),
                        [](const auto& element, const auto& self) { reply(element, self, Payload::of(text("done"))); }};
    // The worker, which answers when the test says so.
    const Puppet worker{system.get(), [&](const auto& element, const auto&) {
                          if (!element.content().template match_elements<v1::FindHolder>())
                            return;
                          questions.at(asked) = {element.sender, element.mid.response_id().integer_value()};
                          ++asked;
                        }};
    std::uint64_t leases = 0;
    std::vector<std::uint64_t> released;
    const Puppet broker{system.get(), [&](const auto& element, const auto& self) {
                          const auto& content = element.content();
                          if (content.template match_elements<v1::ReleaseLease>())
                            released.push_back(content.template get_as<v1::ReleaseLease>(0).lease());
                          if (!content.template match_elements<v1::AcquireLease>())
                            return;
                          v1::Granted granted;
                          granted.mutable_lease()->set_id(++leases);
                          granted.set_address("127.0.0.1:1");
                          reply(element, self, granted, caf::strong_actor_ptr{}, caf::strong_actor_ptr{});
                        }};
    const auto link = std::make_shared<detail::BrokerLink>(port, [] { return v1::Hello{}; });
    link->attach(broker.actor());
    const auto workers = std::make_shared<detail::WorkerLinks>(port, *links);
    workers->add_own("127.0.0.1:1", worker.actor());
    const auto dispatcher = std::make_shared<detail::TaskDispatcher>(port, link, workers, 1);

    const auto task = std::make_shared<detail::WorkState<Payload, detail::PendingTask>>();
    task->call.method = "anything";
    dispatcher->submit(task, std::make_shared<const detail::TaskShape>(), {}, {});
    REQUIRE(asked == 1);
    // A broker that hears of others only would take it away.
    CHECK(dispatcher->leases() == std::vector{LeaseId{1}});
    const auto answer = [&](std::size_t question, const caf::strong_actor_ptr& holder) {
      caf_version::enqueue(questions[question].sender, worker.actor(), questions[question].answer, v1::Started{},
                           holder);
    };
    answer(0, nullptr);
    CHECK(released == std::vector<std::uint64_t>{1});
    CHECK(dispatcher->leases().empty());
    REQUIRE(eventually([&] { return asked == 2; }));
    CHECK(dispatcher->leases() == std::vector{LeaseId{2}});
    CHECK_FALSE(task->finished());
    answer(1, runner.actor());
    REQUIRE(task->finished());
    CHECK(Future<Payload>{task}.get().has_value());
    CHECK(dispatcher->leases() == std::vector{LeaseId{2}});

    dispatcher->close();
    workers->close();
    link->close();
    port.close();
  }
  links->lanes()->watch(nullptr);
  links.reset();
}

namespace {

/// A dispatcher, and a broker that writes down what it is asked and answers when it is told to.
struct Bed {
  struct Question {
    caf::strong_actor_ptr sender;
    std::uint64_t answer = 0;
  };

  Bed() {
    link->attach(broker.actor());
  }

  Bed(const Bed&) = delete;
  Bed& operator=(const Bed&) = delete;

  ~Bed() {
    dispatcher->close();
    link->close();
    port.close();
  }

  std::shared_ptr<detail::WorkState<Payload, detail::PendingTask>> submit(std::optional<Duration> queue_timeout = {},
                                                                          int retries = 0) {
    auto task = std::make_shared<detail::WorkState<Payload, detail::PendingTask>>();
    task->call.method = "anything";
    task->retries_left = retries;
    dispatcher->submit(task, std::make_shared<const detail::TaskShape>(), queue_timeout, {});
    return task;
  }

  template <class... Ts>
  void answer(std::size_t question, Ts&&... xs) {
    const auto asked = questions.at(question);
    caf_version::enqueue(asked.sender, broker.actor(), asked.answer, std::forward<Ts>(xs)...);
  }

  void hear(const caf::mailbox_element& element) {
    const auto& content = element.content();
    if (content.match_elements<v1::AcquireLease>()) {
      said.emplace_back("acquire", content.get_as<v1::AcquireLease>(0).client_request());
      questions.push_back({element.sender, element.mid.response_id().integer_value()});
    } else if (content.match_elements<v1::CancelAcquire>()) {
      said.emplace_back("cancel", content.get_as<v1::CancelAcquire>(0).client_request());
    }
  }

  Cluster cluster = embed();
  RequestPort port{cluster.system(), [](MessageContent&) {}};
  std::vector<std::pair<std::string, std::uint64_t>> said;
  std::vector<Question> questions;
  Puppet broker{cluster.system(), [this](const auto& element, const auto&) { hear(element); }};
  std::shared_ptr<detail::BrokerLink> link = std::make_shared<detail::BrokerLink>(port, [] { return v1::Hello{}; });
  std::shared_ptr<detail::TaskDispatcher> dispatcher = std::make_shared<detail::TaskDispatcher>(port, link, nullptr, 1);
};

} // namespace

TEST_CASE("a lease that is asked for and withdrawn at once is asked for first", "[cluster]") {
  Bed bed;
  std::vector<std::shared_ptr<detail::WorkState<Payload, detail::PendingTask>>> waiting;
  // It is sent its task before the broker is asked for the next lease, on the same thread.
  const Puppet runner{bed.cluster.system(), [&](const auto& element, const auto& self) {
                        for (const auto& task : waiting)
                          bed.dispatcher->cancel(*task, Error{Errc::cancelled, "the test withdrew it"});
                        reply(element, self, Payload::of(text("done")));
                      }};
  const auto first = bed.submit();
  for (int i = 0; i < 5; ++i)
    waiting.push_back(bed.submit());
  REQUIRE(bed.questions.size() == 4); // so many at a time
  v1::Granted granted;
  granted.mutable_lease()->set_id(1);
  bed.answer(0, granted, runner.actor(), runner.actor());
  CHECK(first->finished());
  std::set<std::uint64_t> open;
  for (const auto& [what, request] : bed.said)
    if (what == "acquire")
      open.insert(request);
    else
      CHECK(open.erase(request) == 1);
  CHECK(open == std::set{bed.said.front().second}); // the one that was granted
}

TEST_CASE("a task that is queued again has all of its time in the queue again", "[cluster]") {
  using namespace std::chrono_literals;
  Bed bed;
  std::promise<bool> ended;
  std::shared_ptr<detail::WorkState<Payload, detail::PendingTask>> task;
  // On one thread, in the order of their times: the refusal, the end of the first wait if it still counts, and a look.
  must(bed.port.after(200ms, [&bed] { bed.answer(0, to_caf(Error{Errc::worker_died, "it is gone"})); }));
  must(bed.port.after(450ms, [&ended, &task] { ended.set_value(task->finished()); }));
  task = bed.submit(300ms, 1);
  CHECK_FALSE(ended.get_future().get());
  CHECK(bed.questions.size() == 2);
}

TEST_CASE("tasks that a runner has not begun when it ends run elsewhere, and use up no retry", "[cluster]") {
  Bed bed;
  const Puppet ending{bed.cluster.system(), [](const auto& element, const auto& self) {
                        reply(element, self, to_caf(Error{Errc::not_begun, "it ends"}));
                      }};
  const Puppet runner{bed.cluster.system(),
                      [](const auto& element, const auto& self) { reply(element, self, Payload::of(text("done"))); }};
  const auto task = bed.submit();
  const auto grant = [&](std::size_t question, std::uint64_t lease, const Puppet& to) {
    v1::Granted granted;
    granted.mutable_lease()->set_id(lease);
    bed.answer(question, granted, to.actor(), to.actor());
  };
  grant(0, 1, ending);
  CHECK_FALSE(task->finished());
  REQUIRE(bed.questions.size() == 2);
  grant(1, 2, runner);
  REQUIRE(task->finished());
  CHECK(Future<Payload>{task}.get().has_value());
}

namespace {

/// Says when memory is freed.
template <class T>
struct Noting {
  using value_type = T;

  explicit Noting(bool& is_freed) : freed(&is_freed) {
    // nop
  }

  template <class Other>
  explicit Noting(const Noting<Other>& other) : freed(other.freed) {
    // nop
  }

  T* allocate(std::size_t count) {
    return std::allocator<T>{}.allocate(count);
  }

  void deallocate(T* memory, std::size_t count) {
    *freed = true;
    std::allocator<T>{}.deallocate(memory, count);
  }

  friend bool operator==(const Noting&, const Noting&) = default;

  bool* freed;
};

} // namespace

TEST_CASE("a task that is refused leaves no timers behind", "[cluster]") {
  using namespace std::chrono_literals;
  Bed bed;
  bool freed = false;
  // Its memory is there as long as a timer knows of it.
  using Task = detail::WorkState<Payload, detail::PendingTask>;
  auto task = std::allocate_shared<Task>(Noting<Task>{freed});
  task->call.method = "anything";
  bed.dispatcher->submit(task, std::make_shared<const detail::TaskShape>(), 1h, 1h);
  bed.answer(0, to_caf(Error{Errc::infeasible, "no node has so much"}));
  REQUIRE(task->finished());
  CHECK_FALSE(freed);
  task.reset();
  CHECK(freed);
}

namespace {

/// A broker that answers nothing but the hello, and writes down what comes behind it.
class SilentBroker {
public:
  explicit SilentBroker(caf::actor_system& system)
    : puppet_(system, [this](const auto& element, const auto& self) { hear(element, self); }) {
    // nop
  }

  [[nodiscard]] const caf::strong_actor_ptr& actor() const noexcept {
    return puppet_.actor();
  }

  std::vector<std::string> heard;

private:
  void hear(const caf::mailbox_element& element, const caf::strong_actor_ptr& self) {
    const auto& content = element.content();
    if (content.match_elements<v1::AcquireLease>())
      heard.emplace_back("acquire " + std::to_string(content.get_as<v1::AcquireLease>(0).client_request()));
    else if (content.match_elements<v1::CancelAcquire>())
      heard.emplace_back("cancel " + std::to_string(content.get_as<v1::CancelAcquire>(0).client_request()));
    else if (content.match_elements<v1::KillActor>())
      heard.emplace_back(content.get_as<v1::KillActor>(0).again() ? "kill again" : "kill");
    else
      reply(element, self, v1::Done{});
  }

  Puppet puppet_;
};

using Heard = std::vector<std::string>;

} // namespace

TEST_CASE("a task that is given up while the broker is away is withdrawn when it is back", "[cluster]") {
  auto cluster = embed();
  RequestPort port{cluster.system(), [](MessageContent&) {}};
  const auto link = std::make_shared<detail::BrokerLink>(port, [] { return v1::Hello{}; });
  const auto dispatcher = std::make_shared<detail::TaskDispatcher>(port, link, nullptr, 1);
  const auto task = std::make_shared<detail::WorkState<Payload, detail::PendingTask>>();
  task->call.method = "anything";
  dispatcher->submit(task, std::make_shared<const detail::TaskShape>(), {}, {});
  dispatcher->cancel(*task, Error{Errc::cancelled, "the test withdrew it"});
  CHECK(task->finished());
  const SilentBroker broker{cluster.system()};
  link->attach(broker.actor());
  CHECK(broker.heard == Heard{"acquire 1", "cancel 1"});
  dispatcher->close();
  link->close();
  port.close();
}

TEST_CASE("a request is said to come again only if the broker may have had it before", "[cluster]") {
  auto cluster = embed();
  RequestPort port{cluster.system(), [](MessageContent&) {}};
  const auto link = std::make_shared<detail::BrokerLink>(port, [] { return v1::Hello{}; });
  v1::KillActor message;
  message.set_name("typo");
  link->ask(std::make_shared<detail::DoneReply>(), never, message);
  for (const auto* expected : {"kill", "kill again"}) {
    const SilentBroker broker{cluster.system()};
    link->attach(broker.actor());
    CHECK(broker.heard == Heard{expected});
  }
  link->close();
  port.close();
}
