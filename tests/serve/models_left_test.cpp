// Versions that come and go while something else happens: what a server of a deployment has left for a canary, and
// requests that lose a race against a version.
#include "zero_digits.hpp"

#include <support/eventually.hpp>

#include <atomic>
#include <filesystem>
#include <future>
#include <map>
#include <set>
#include <thread>
#include <utility>
#include <vector>

using namespace std::chrono_literals;
using namespace serve;
using namespace serve::test;
using gpuactors::Errc;
using gpuactors::test::eventually;

namespace {

/// A model that is made when the gate is open.
class LateDigits : public ZeroDigits {
public:
  LateDigits(gpuactors::Init init, const wire::ReplicaConfig& config) : ZeroDigits(std::move(init), config) {
    gate().pass([this] { return stop_requested(); });
  }
};

GPUACTORS_ACTOR("test/late-digits", LateDigits, wire::ReplicaConfig)
    .method(describe_method, &LateDigits::describe)
    .method(infer_method, &LateDigits::infer);

/// A cluster in which a server of the deployment "prod" has left a replica of a model and one of its canary.
class Left {
public:
  Left() : server{{}, "host:4x64MiB"} {
    options.deployment = "prod";
    write_checkpoint(second(), 2);
    ModelTable table{server.cluster, options};
    table.set(entry());
    must(table.settle("digits"));
    table.close(gpuactors::TimePoint{});
    REQUIRE(replicas().size() == 2);
  }

  [[nodiscard]] std::string second() const {
    return (server.folder / "second.safetensors").string();
  }

  [[nodiscard]] ModelConfig config(const std::string& text) const {
    return must(parse_model("digits" + text + ",gpus=0.25", {}));
  }

  [[nodiscard]] ModelConfig first_config() const {
    return config("=" + server.file().string());
  }

  [[nodiscard]] CanaryConfig canary() const {
    return {config("=" + second()), 0.5};
  }

  [[nodiscard]] ModelEntry entry() const {
    return {first_config(), canary()};
  }

  /// The names of all replicas.
  [[nodiscard]] std::set<std::string> replicas() {
    std::set<std::string> names;
    const auto state = must(server.cluster.state());
    for (const auto& actor : state.actors())
      names.insert(actor.name());
    return names;
  }

  /// Has a table load another model, and the file of its canary go meanwhile, whose replica is still there then.
  void lose_canary(ModelTable& table) {
    const ClosedGate closed;
    table.set({config(",actor=test/late-digits"), canary()});
    auto settling = std::async(std::launch::async, [&] { return table.settle("digits"); });
    gate().await(1);
    std::filesystem::remove(second());
    gate().open();
    CHECK(says(settling.get(), "the canary of model digits could not be loaded: "));
    CHECK(must(table.describe("digits", "")).versions == std::vector<std::string>{"1"});
    REQUIRE(replicas().size() == 2);
  }

  Server server;
  TableOptions options;
};

} // namespace

TEST_CASE("a server that starts without the file of its canary takes over the model's replicas, and no others",
          "[serve]") {
  Left left;
  const auto before = left.replicas();
  std::filesystem::remove(left.second());
  ModelTable table{left.server.cluster, left.options};
  table.set(left.entry());
  CHECK(says(table.settle("digits"), "the canary of model digits could not be loaded: "));
  CHECK(must(table.model_ready("digits", "1")));
  const auto now = left.replicas();
  REQUIRE(now.size() == 1);
  CHECK(before.count(*now.begin()) == 1);
  // When the file is there, the canary comes, and nothing else.
  write_checkpoint(left.second(), 2);
  must(table.settle("digits"));
  CHECK(must(table.describe("digits", "")).versions == std::vector<std::string>{"3", "1"});
  CHECK(left.replicas().size() == 2);
  table.close(gpuactors::TimePoint{});
}

TEST_CASE("what a canary was to take over ends when nobody wants a canary any more", "[serve]") {
  Left left;
  ModelTable table{left.server.cluster, left.options};
  left.lose_canary(table);
  table.set({left.config(",actor=test/late-digits")});
  CHECK(table.is_missing("digits"));
  must(table.settle("digits"));
  CHECK_FALSE(table.is_missing("digits"));
  CHECK(left.replicas().size() == 1);
  CHECK(must(table.model_ready("digits", "1")));
}

TEST_CASE("what a canary was to take over is still its own when the model has become another one", "[serve]") {
  Left left;
  const auto before = left.replicas();
  ModelTable table{left.server.cluster, left.options};
  left.lose_canary(table);
  const auto kept = left.replicas();
  write_checkpoint(left.second(), 2);
  table.set(left.entry());
  must(table.settle("digits"));
  const auto now = left.replicas();
  CHECK(now.size() == 2);
  std::set<std::string> same;
  for (const auto& name : now)
    if (before.count(name) > 0 && kept.count(name) > 0)
      same.insert(name);
  CHECK(same.size() == 1);
}

TEST_CASE("what a canary was to take over ends when the version before becomes the canary", "[serve]") {
  Left left;
  ModelTable table{left.server.cluster, left.options};
  left.lose_canary(table);
  table.set({left.first_config(), CanaryConfig{left.config(",actor=test/late-digits"), 0.5}});
  must(table.settle("digits"));
  CHECK(must(table.describe("digits", "")).versions == std::vector<std::string>{"1", "3"});
  CHECK(left.replicas().size() == 2);
  CHECK_FALSE(table.is_missing("digits"));
}

TEST_CASE("what a canary was to take over ends with the model", "[serve]") {
  Left left;
  {
    ModelTable table{left.server.cluster, left.options};
    left.lose_canary(table);
    must(table.remove("digits"));
    CHECK(left.replicas().empty());
    table.close(gpuactors::TimePoint{});
  }
  // It goes on where the server ends.
  Left again;
  ModelTable table{again.server.cluster, again.options};
  again.lose_canary(table);
  table.close(gpuactors::TimePoint{});
  CHECK(again.replicas().size() == 2);
}

TEST_CASE("no request fails because the version that it was to go to goes in this moment", "[serve]") {
  Server server{{}, "host:4x64MiB"};
  const auto second = server.folder / "second.safetensors";
  write_checkpoint(second, 2);
  const auto first = must(parse_model("digits=" + server.file().string() + ",gpus=0.25", {}));
  const auto other = must(parse_model("digits=" + second.string() + ",gpus=0.25", {}));
  server.table.set({first});
  must(server.table.settle("digits"));
  std::atomic<bool> done{false};
  std::atomic<int> asked{0};
  const auto x = some_rows(1, 1);
  const auto clients = [&] {
    std::map<std::string, int> errors;
    while (!done) {
      // Many at a time, so that most of the time somebody is on the way from the table to a version.
      std::vector<Asked> waiting;
      for (int i = 0; i < 32; ++i)
        waiting.push_back(ask_async(server.table, request_for("digits", x)));
      for (auto& one : waiting)
        if (const auto reply = one.reply.get(); !reply)
          ++errors[to_string(reply.error())];
      ++asked;
    }
    return errors;
  };
  std::vector<std::future<std::map<std::string, int>>> errors;
  for (int i = 0; i < 4; ++i)
    errors.push_back(std::async(std::launch::async, clients));
  const auto go_on = [&](const ModelEntry& entry) {
    server.table.set(entry);
    must(server.table.settle("digits"));
    const int before = asked;
    CHECK(eventually([&] { return asked > before; }));
  };
  // Canaries that come, take the model's place and are dropped, and versions that replace each other.
  for (int round = 0; round < 8; ++round) {
    go_on({first, CanaryConfig{other, 0.5}});
    go_on({other, CanaryConfig{first, 0.5}});
    go_on({other});
    go_on({first});
  }
  done = true;
  for (auto& each : errors)
    CHECK(each.get() == std::map<std::string, int>{});
}
