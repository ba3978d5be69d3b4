// What an agent makes of workers that lose a device by sticky errors.
#include <gpuactors/agent/process_agent.hpp>
#include <gpuactors/wire/caf_version.hpp>

#include <support/catch.hpp>

#include <wire/system.hpp>

#include <condition_variable>
#include <mutex>

using namespace gpuactors;

namespace {

/// Starts nothing, and says how many it was asked for.
class Launcher : public WorkerLauncher {
public:
  Result<void> start(const WorkerCommand& command) override {
    const std::lock_guard lock{mutex_};
    started_ = command.number;
    ++asked_;
    changed_.notify_all();
    return {};
  }

  void kill(std::uint64_t) override {
    const std::lock_guard lock{mutex_};
    ++killed_;
  }

  /// Waits until the agent wants worker `number`: it has done then all that it was told before.
  void await(std::uint64_t number) {
    std::unique_lock lock{mutex_};
    changed_.wait(lock, [&] { return started_ >= number; });
  }

  int asked() {
    const std::lock_guard lock{mutex_};
    return asked_;
  }

  int killed() {
    const std::lock_guard lock{mutex_};
    return killed_;
  }

private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t started_ = 0;
  int asked_ = 0;
  int killed_ = 0;
};

class Scene {
public:
  Scene() {
    ProcessAgentOptions options;
    options.node.set_name("node");
    auto* device = options.node.add_devices();
    device->set_kind("cuda");
    device->set_uuid("GPU-0");
    options.launcher = launcher;
    options.notice = [this](const std::string& text) {
      const std::lock_guard lock{mutex_};
      notices_ += text + '\n';
    };
    agent_ = caf::actor_cast<caf::strong_actor_ptr>(system_.get().spawn<ProcessAgent>(std::move(options)));
  }

  ~Scene() {
    for (const auto& control : controls_)
      caf::anon_send_exit(control, caf::exit_reason::user_shutdown);
    caf::anon_send_exit(caf::actor_cast<caf::actor>(agent_), caf::exit_reason::user_shutdown);
  }

  /// A lease on the device, in the worker that serves it, or in one of its own.
  void lease(std::uint64_t id, bool isolated = false) {
    v1::StartRunner order;
    order.mutable_lease()->set_id(id);
    order.mutable_lease()->set_epoch(1);
    order.mutable_lease()->add_devices()->set_share_units(1000);
    order.set_isolated(isolated);
    caf_version::post(agent_, std::move(order));
  }

  void lease_without_device(std::uint64_t id, const std::string& variable = {}) {
    v1::StartRunner order;
    order.mutable_lease()->set_id(id);
    order.mutable_lease()->set_epoch(1);
    if (!variable.empty()) {
      order.set_isolated(true);
      (*order.mutable_environment())[variable] = "x";
    }
    caf_version::post(agent_, std::move(order));
  }

  /// Its holder has ended, and tells that the device is lost.
  void lose(std::uint64_t id) {
    v1::LeaseEnded ended;
    ended.set_lease(id);
    ended.set_epoch(1);
    ended.add_lost_devices(0);
    caf_version::post(agent_, std::move(ended));
  }

  /// The worker has come up; what it is told is dropped.
  void come_up(std::uint64_t worker) {
    // With an argument, which it does not need: CAF 0.17.6 makes a reference of a null pointer where there is none.
    const auto control = system_.get().spawn(
        [](caf::event_based_actor* self, int) -> caf::behavior {
          self->set_default_handler(caf::drop);
          return {[](const v1::Done&) {}};
        },
        0);
    controls_.push_back(control);
    v1::WorkerHello message;
    message.set_worker(worker);
    caf_version::post(agent_, std::move(message), caf::actor_cast<caf::strong_actor_ptr>(control));
  }

  void fail_device() {
    v1::DeviceFault fault;
    fault.add_uuids("GPU-0");
    fault.set_reason("it fell off the bus");
    caf_version::post(agent_, std::move(fault));
  }

  void be_due(ProcessAgent::Due what, std::uint64_t worker) {
    v1::Tick tick;
    tick.set_what(static_cast<std::uint32_t>(what));
    tick.set_id(worker);
    caf_version::post(agent_, std::move(tick));
  }

  void exit(std::uint64_t worker) {
    v1::WorkerExited exited;
    exited.set_worker(worker);
    exited.set_text("was killed");
    caf_version::post(agent_, std::move(exited));
  }

  [[nodiscard]] std::string notices() {
    const std::lock_guard lock{mutex_};
    return notices_;
  }

  std::shared_ptr<Launcher> launcher = std::make_shared<Launcher>();

private:
  std::mutex mutex_;
  std::string notices_;
  test::System system_;
  caf::strong_actor_ptr agent_;
  std::vector<caf::actor> controls_;
};

} // namespace

TEST_CASE("a sticky error costs a device one loss, however many leases its worker had") {
  Scene scene;
  for (std::uint64_t id = 1; id <= 4; ++id)
    scene.lease(id);
  for (std::uint64_t id = 1; id <= 4; ++id)
    scene.lose(id);
  scene.lease_without_device(100);
  scene.launcher->await(2);
  CHECK(scene.launcher->killed() >= 1);
  CHECK(scene.notices().find("out of use") == std::string::npos);
}

TEST_CASE("a device that worker after worker loses is out of use") {
  Scene scene;
  // Isolated: a worker for each lease.
  for (std::uint64_t id = 1; id <= limits::device_losses; ++id) {
    scene.lease(id, true);
    scene.launcher->await(id);
    CHECK(scene.notices().find("out of use") == std::string::npos);
    scene.lose(id);
    scene.exit(id);
  }
  scene.lease_without_device(100);
  scene.launcher->await(limits::device_losses + 1);
  CHECK(scene.notices().find("3 workers lost it by sticky errors within 10 minutes; it is out of use")
        != std::string::npos);
}

TEST_CASE("a worker whose device failed is killed when its own time is over, and not when it had to be up") {
  Scene scene;
  scene.lease(1);
  scene.come_up(1);
  const auto failed_at = Clock::now();
  scene.fail_device();
  scene.be_due(ProcessAgent::Due::worker_start, 1);
  scene.lease_without_device(100);
  scene.launcher->await(2);
  const auto killed = scene.launcher->killed();
  // On a machine that stood still meanwhile, the agent's own reminder has come.
  if (Clock::now() - failed_at < limits::fault_grace)
    CHECK(killed == 0);
  scene.be_due(ProcessAgent::Due::worker_end, 1);
  scene.lease_without_device(101, "COLOUR");
  scene.launcher->await(3);
  CHECK(scene.launcher->killed() >= 1);
}

TEST_CASE("an agent starts no process with a variable that is not for users, whoever asks") {
  Scene scene;
  for (const auto* name : {"LD_PRELOAD", "CUDA_VISIBLE_DEVICES", "OPENSSL_CONF", "a b"})
    scene.lease_without_device(1, name);
  scene.lease_without_device(2, "COLOUR");
  scene.launcher->await(1);
  CHECK(scene.launcher->asked() == 1);
}
