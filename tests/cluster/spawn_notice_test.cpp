// What a spawn that takes long says of itself.
#include "fixtures.hpp"

#include <gpuactors/cluster/detail/spawn_notice.hpp>

#include <support/catch.hpp>

#include <optional>
#include <string>
#include <thread>

using namespace gpuactors;
using namespace gpuactors::test;
using Catch::Matchers::Contains;
using detail::spawn_notice;

namespace {

/// A cluster with one device, and the first thing that it says.
struct Waiting {
  explicit Waiting(Duration after = std::chrono::milliseconds{5}) {
    EmbedOptions options;
    options.devices = "host:1x64MiB";
    options.registry = types();
    options.spawn_notice = after;
    options.notice = [this](std::string_view line) {
      if (!std::exchange(told, true))
        said.set(std::string{line});
    };
    cluster.emplace(must(Cluster::embed(std::move(options))));
  }

  Promise<std::string> said;
  bool told = false;
  std::optional<Cluster> cluster;
};

v1::ClusterState state_with(const std::string& state) {
  v1::ClusterState all;
  auto& actor = *all.add_actors();
  actor.set_id(7);
  actor.set_type("trainer");
  actor.set_origin(11);
  actor.set_state(state);
  return all;
}

} // namespace

TEST_CASE("a spawn that waits for a place says why there is none, and goes on") {
  Waiting waiting;
  auto first = must(waiting.cluster->spawn("accumulator", number(0), {.gpus = 1}));
  Result<std::string> line = fail(Errc::not_found, "nothing yet");
  std::thread frees{[&] {
    line = waiting.said.future().get();
    (void)waiting.cluster->kill(first);
  }};
  const auto second = waiting.cluster->spawn("accumulator", number(0), {.gpus = 1, .name = "second"});
  frees.join();
  CHECK(second);
  CHECK_THAT(must(line), Contains("the spawn of second has taken") && Contains("it waits for a place: "));
}

TEST_CASE("a spawn whose constructor takes long says where that runs") {
  Waiting waiting;
  gate().close();
  Result<std::string> line = fail(Errc::not_found, "nothing yet");
  std::thread opens{[&] {
    line = waiting.said.future().get();
    gate().open();
  }};
  const auto late = waiting.cluster->spawn("late", google::protobuf::Empty{}, {.gpus = 1});
  opens.join();
  CHECK(late);
  CHECK_THAT(must(line), Contains("the spawn of late has taken")
                             && Contains("its constructor has not returned, on node local, device 0"));
}

TEST_CASE("the notice of a spawn follows the state of its actor") {
  const auto line = [](const Result<v1::ClusterState>& state) {
    return spawn_notice(state, 11, {"", "", "trainer"}, std::chrono::seconds{30});
  };
  auto waits = state_with("waiting");
  CHECK(line(waits) == "the spawn of trainer has taken 30 s: it waits for a place");
  auto& other = *waits.add_queue();
  other.set_name("trainer-8");
  other.set_reason("another one's");
  auto& own = *waits.add_queue();
  own.set_name("trainer-7");
  own.set_reason("every device is held");
  CHECK(line(waits) == "the spawn of trainer has taken 30 s: it waits for a place: every device is held");
  auto starts = state_with("starting");
  auto& lease = *starts.mutable_actors(0)->mutable_lease();
  lease.set_node("n0");
  CHECK_THAT(line(starts), Contains("its constructor has not returned, on node n0"));
  lease.add_devices()->set_index(2);
  lease.add_devices()->set_index(3);
  CHECK_THAT(line(starts), Contains("on node n0, device 2 and 3"));
  CHECK_THAT(line(state_with("restarting")), Contains("it is restarting"));
  CHECK_THAT(line(v1::ClusterState{}), Contains("the broker does not know of it yet"));
  v1::ClusterState large;
  large.add_incomplete("actors");
  CHECK_THAT(line(large), Contains("too large to say why"));
  // The one that has its name has another origin, and so has one that it joins.
  auto others = state_with("stopping");
  others.mutable_actors(0)->set_name("t0");
  CHECK(spawn_notice(others, 12, {"", "t0", "trainer"}, std::chrono::seconds{60})
        == "the spawn of t0 has taken 60 s: there is one of that name: it is stopping");
  CHECK_THAT(spawn_notice(others, 12, {"lab", "t0", "trainer"}, std::chrono::seconds{60}),
             Contains("does not know of it yet"));
  CHECK_THAT(line(fail(Errc::deadline_exceeded, "no answer")), Contains("the broker does not answer (no answer)"));
}

TEST_CASE("a spawn that succeeds or fails in time says nothing") {
  Waiting waiting{std::chrono::hours{1}};
  CHECK(waiting.cluster->spawn("accumulator", number(0)));
  CHECK_FALSE(waiting.cluster->spawn("accumulator", number(-1)));
  CHECK_FALSE(waiting.cluster->spawn("nothing of that name"));
  CHECK_FALSE(waiting.told);
}
