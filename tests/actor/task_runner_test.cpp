// TaskRunner, played by a test instead of a worker.
#include <gpuactors/actor/registry.hpp>
#include <gpuactors/actor/task.hpp>
#include <gpuactors/actor/task_runner.hpp>
#include <gpuactors/base/future.hpp>

#include <support/catch.hpp>
#include <support/messages.hpp>

#include <wire/system.hpp>

#include <memory>
#include <string>
#include <vector>

using namespace gpuactors;
using namespace gpuactors::test;

namespace {

/// Writes down which tasks have ended.
class Link : public ClusterLink {
public:
  void task_ended(LeaseId, std::uint64_t run) noexcept override {
    ended.push_back(run);
  }

  // Read by the test when the runner has answered.
  std::vector<std::uint64_t> ended;
};

/// A runner for three tasks that use the link to the cluster: "now" answers at once, "later" with a future, and
/// "throws" not at all.
struct Runner {
  Runner() {
    define_task(
        "now",
        [](TaskContext& ctx, const Text& in) {
          (void)ctx.cluster_link();
          return in;
        },
        *registry);
    define_task(
        "later",
        [this](TaskContext& ctx, const Text&) {
          (void)ctx.cluster_link();
          return promise.future();
        },
        *registry);
    define_task(
        "throws",
        [](TaskContext& ctx, const Text&) -> Text {
          (void)ctx.cluster_link();
          throw std::runtime_error("nothing to do");
        },
        *registry);
    auto services = std::make_shared<ProcessServices>();
    services->registry = registry;
    services->tasks = std::make_shared<CallTable>(registry->task_names());
    services->quotas = std::make_shared<QuotaTable>();
    services->cluster = link;
    runner = threads.spawn<TaskRunner>(system.get(), std::move(services), control, LeaseInfo{}).value();
    self->request(runner, caf::infinite, v1::StartRunner{}).receive([](const v1::Started&) {}, not_expected);
  }

  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

  ~Runner() {
    end();
  }

  void end() {
    self->send_exit(runner, caf::exit_reason::user_shutdown);
    self->wait_for(runner);
  }

  auto ask(const std::string& task) {
    return self->request(runner, caf::infinite, task, Payload::of(text("")));
  }

  static void not_expected(const caf::error& error) {
    FAIL(to_string(error));
  }

  std::shared_ptr<Link> link = std::make_shared<Link>();
  Promise<Text> promise;
  std::shared_ptr<TypeRegistry> registry = std::make_shared<TypeRegistry>();
  std::shared_ptr<HolderControl> control = std::make_shared<HolderControl>();
  System system;
  OwnThreads threads;
  caf::scoped_actor self{system.get()};
  caf::actor runner;
};

using Runs = std::vector<std::uint64_t>;

} // namespace

TEST_CASE("a task that answers with a future has ended when that is ready, and not when it returns", "[actor]") {
  Runner played;
  auto later = played.ask("later");
  // Served when the other one has returned.
  played.ask("now").receive([](const Payload&) {}, Runner::not_expected);
  CHECK(played.link->ended == Runs{2});
  played.promise.set(text("done"));
  later.receive([](const Payload&) {}, Runner::not_expected);
  CHECK(played.link->ended == Runs{2, 1});
}

TEST_CASE("a task whose answer is an error has ended, too", "[actor]") {
  Runner played;
  played.ask("throws").receive([](const Payload&) { FAIL("there is an answer"); }, [](const caf::error&) {});
  CHECK(played.link->ended == Runs{1});
}

TEST_CASE("a task whose answer is to come has ended when its lease does", "[actor]") {
  Runner played;
  auto later = played.ask("later");
  played.ask("now").receive([](const Payload&) {}, Runner::not_expected);
  played.end();
  later.receive([](const Payload&) { FAIL("there is an answer"); }, [](const caf::error&) {});
  CHECK(played.link->ended == Runs{2, 1});
}
