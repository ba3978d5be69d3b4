// What the end of a cluster says of itself when it takes long.
#include "fixtures.hpp"

#include <gpuactors/cluster/detail/close_notice.hpp>

#include <support/catch.hpp>
#include <support/eventually.hpp>

#include <algorithm>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

using namespace gpuactors;
using namespace gpuactors::test;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

namespace {

/// A cluster that closes on another thread, and what it says meanwhile.
class Closing {
public:
  explicit Closing(Duration after = std::chrono::milliseconds{1}) {
    EmbedOptions options;
    options.devices = "host:1x64MiB";
    options.registry = types();
    options.close_notice = after;
    options.notice = [this](std::string_view line) {
      const std::lock_guard lock{mutex_};
      lines_.emplace_back(line);
    };
    cluster = must(Cluster::embed(std::move(options)));
  }

  void begin() {
    closer_ = std::thread{[this] { cluster->close(); }};
  }

  /// Whether it says this soon.
  void says(const std::string& part) {
    const auto is_said = [&] {
      const std::lock_guard lock{mutex_};
      return std::any_of(lines_.begin(), lines_.end(),
                         [&](const std::string& line) { return line.find(part) != std::string::npos; });
    };
    const bool said = eventually(is_said);
    const std::lock_guard lock{mutex_};
    INFO(part << " was not said; the last line: " << (lines_.empty() ? "none" : lines_.back()));
    CHECK(said);
  }

  std::vector<std::string> end() {
    closer_.join();
    const std::lock_guard lock{mutex_};
    return lines_;
  }

  std::optional<Cluster> cluster;

private:
  std::mutex mutex_;
  std::vector<std::string> lines_;
  std::thread closer_;
};

} // namespace

TEST_CASE("a cluster that closes for long says which actor and which task it waits for") {
  Closing closing;
  gate().close();
  auto named = must(closing.cluster->spawn("accumulator", number(0), {.name = "slow"}));
  auto nameless = must(closing.cluster->spawn("accumulator", number(0)));
  const auto first = named.call<Number>("wait", number(1));
  const auto second = nameless.call<Number>("wait", number(1));
  const auto third = closing.cluster->submit<Number>("wait", number(1));
  gate().await(3);
  closing.begin();
  closing.says("actor slow in wait for ");
  closing.says("actor accumulator " + std::to_string(nameless.id().value()) + " in wait for ");
  closing.says("task wait for ");
  gate().open();
  for (const auto& line : closing.end())
    CHECK_THAT(line, StartsWith("the cluster has been closing for "));
}

TEST_CASE("what the function for notices throws is lost, and the cluster goes on to its end") {
  EmbedOptions options;
  options.devices = "host:1x64MiB";
  options.registry = types();
  options.close_notice = std::chrono::milliseconds{1};
  Promise<void> called;
  options.notice = [&called](std::string_view) {
    called.set({});
    throw 1;
  };
  auto cluster = must(Cluster::embed(std::move(options)));
  gate().close();
  auto actor = must(cluster.spawn("accumulator", number(0)));
  const auto running = actor.call<Number>("wait", number(1));
  gate().await(1);
  std::thread closer{[&] { cluster.close(); }};
  CHECK(called.future().get().has_value());
  gate().open();
  closer.join();
}

TEST_CASE("a CAF actor of the program's own is named as what the end of a cluster waits for") {
  Closing closing;
  auto own = closing.cluster->system().spawn(
      [](caf::event_based_actor* self) { return caf::behavior{[self](std::int32_t) { self->quit(); }}; });
  closing.begin();
  closing.says("such as actors of the program's own");
  caf::anon_send_exit(own, caf::exit_reason::user_shutdown);
  closing.end();
}

TEST_CASE("a handle that is kept does not keep a cluster from its end") {
  Closing closing;
  const auto kept = must(closing.cluster->spawn("accumulator", number(0))).handle();
  closing.cluster.reset();
  CHECK(kept);
}

TEST_CASE("a cluster that closes at once, or is to say nothing, says nothing") {
  Closing quick{std::chrono::hours{1}};
  must(quick.cluster->spawn("accumulator", number(0)));
  quick.begin();
  CHECK(quick.end().empty());

  Closing silent{Duration::zero()};
  gate().close();
  auto actor = must(silent.cluster->spawn("accumulator", number(0)));
  const auto answer = actor.call<Number>("wait", number(1));
  gate().await(1);
  silent.begin();
  CHECK(eventually([&] { return silent.cluster->closed(); }));
  gate().open();
  CHECK(silent.end().empty());
}

TEST_CASE("a notice names eight at most, and counts the others") {
  std::vector<std::string> there;
  for (int i = 0; i < 10; ++i)
    there.push_back("actor a" + std::to_string(i));
  const auto line = detail::close_notice(there, std::chrono::seconds{20});
  CHECK_THAT(line, Contains("for 20 s and waits for actor a0, actor a1") && Contains("actor a7 and 2 more"));
  CHECK_THAT(line, !Contains("a8"));
}

TEST_CASE("holders are there until nobody keeps them, those in user code first") {
  HolderTable table;
  const auto now = Clock::now();
  auto idle = std::make_shared<HolderControl>();
  auto busy = std::make_shared<HolderControl>();
  table.add("actor idle", idle);
  const auto task = std::make_shared<HolderControl>();
  table.add({}, task);
  table.add("actor busy", busy);
  busy->begin_turn("fit", now - std::chrono::milliseconds{2'500});
  CHECK(table.still_there(now)
        == std::vector<std::string>{"actor busy in fit for 2.5 s", "actor idle", "a task that begins or ends"});
  task->begin_turn("square", now - std::chrono::seconds{1});
  busy.reset();
  for (int i = 0; i < 1'000; ++i)
    table.add("gone", std::make_shared<HolderControl>());
  CHECK(table.still_there(now) == std::vector<std::string>{"task square for 1.0 s", "actor idle"});
}
