// Watchdog: a daemon of which a part is stuck does not say that it is alive.
#include <gpuactors/cluster/detail/watchdog.hpp>

#include <support/catch.hpp>
#include <support/eventually.hpp>
#include <support/results.hpp>

#include <caf/event_based_actor.hpp>
#include <caf/io/middleman.hpp>
#include <caf/io/network/multiplexer.hpp>

#include <atomic>
#include <future>
#include <memory>

using namespace gpuactors;
using namespace gpuactors::test;
using namespace std::chrono_literals;

namespace {

constexpr Duration beat_every = 10ms;

/// What holds somebody up while it is closed, and what else the test knows of the actor.
struct WatchdogGate {
  std::promise<void> reached;
  std::promise<void> opened;
  std::atomic<int> asked{0};

  void pass() {
    reached.set_value();
    opened.get_future().wait();
  }
};

/// Answers the watchdog, counts how often, and is held up by a `Tick`.
class HeldUp : public caf::event_based_actor {
public:
  HeldUp(caf::actor_config& config, std::shared_ptr<WatchdogGate> gate)
    : event_based_actor(config), gate_(std::move(gate)) {
    // nop
  }

  caf::behavior make_behavior() override {
    return {[this](const v1::PeerDown&) { ++gate_->asked; }, [this](const v1::Tick&) { gate_->pass(); }};
  }

private:
  std::shared_ptr<WatchdogGate> gate_;
};

struct WatchedDaemon {
  std::unique_ptr<detail::DaemonCore> core = must(detail::DaemonCore::make({}));
  std::shared_ptr<WatchdogGate> gate = std::make_shared<WatchdogGate>();
  caf::strong_actor_ptr actor = core->spawn<HeldUp>(gate);
  std::atomic<int> beats{0};
  std::optional<detail::Watchdog> watchdog{std::in_place, *core, actor, beat_every, [this] { ++beats; }};

  bool beats_again() {
    const int before = beats;
    return eventually([&] { return beats > before + 2; });
  }

  /// After the time of ten beats, by the clock that they come by: whether there was none but one that was on its way.
  bool is_silent() {
    const int before = beats;
    std::promise<void> over;
    must(core->port().after(10 * beat_every, [&] { over.set_value(); }));
    over.get_future().wait();
    return beats <= before + 1;
  }
};

} // namespace

TEST_CASE("a daemon says that it is alive until it ends") {
  WatchedDaemon scene;
  CHECK(scene.beats_again());
  scene.watchdog.reset();
  const int at_the_end = scene.beats;
  CHECK(scene.is_silent());
  CHECK(scene.beats == at_the_end);
}

TEST_CASE("a daemon whose actor is stuck does not say that it is alive, until it goes on") {
  WatchedDaemon scene;
  REQUIRE(scene.beats_again());
  caf_version::post(scene.actor, v1::Tick{});
  scene.gate->reached.get_future().wait();
  CHECK(scene.is_silent());
  scene.gate->opened.set_value();
  CHECK(scene.beats_again());
  // An answer is one however late it comes: it was asked once.
  CHECK(scene.gate->asked <= scene.beats + 1);
}

TEST_CASE("a daemon whose event loop is stuck does not say that it is alive, until it goes on") {
  WatchedDaemon scene;
  REQUIRE(scene.beats_again());
  scene.core->system().middleman().backend().post([gate = scene.gate] { gate->pass(); });
  scene.gate->reached.get_future().wait();
  CHECK(scene.is_silent());
  scene.gate->opened.set_value();
  CHECK(scene.beats_again());
}
