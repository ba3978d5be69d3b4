// A version beside a model's own: its share of the requests, how it comes, takes the place of the other, and goes.
#include "zero_digits.hpp"

#include <support/eventually.hpp>

#include <filesystem>
#include <future>
#include <map>
#include <stdexcept>
#include <utility>

using namespace std::chrono_literals;
using namespace serve;
using namespace serve::test;
using gpuactors::Errc;

namespace {

/// Something else than a network with 8 inputs.
class OtherDigits : public ZeroDigits {
public:
  using ZeroDigits::ZeroDigits;

  wire::ReplicaDescription describe(const google::protobuf::Empty& /*ask*/) {
    auto description = digits_description();
    description.mutable_inputs(0)->set_row_shape(0, inputs + 1);
    return description;
  }
};

GPUACTORS_ACTOR("test/other-digits", OtherDigits, wire::ReplicaConfig)
    .method(describe_method, &OtherDigits::describe)
    .method(infer_method, &OtherDigits::infer);

/// The same, which comes when the gate is open.
class SlowDigits : public OtherDigits {
public:
  SlowDigits(gpuactors::Init init, const wire::ReplicaConfig& config) : OtherDigits(std::move(init), config) {
    gate().pass([this] { return stop_requested(); });
  }
};

GPUACTORS_ACTOR("test/slow-digits", SlowDigits, wire::ReplicaConfig)
    .method(describe_method, &SlowDigits::describe)
    .method(infer_method, &SlowDigits::infer);

/// A replica of which there is one and no other.
class OnlyDigits : public ZeroDigits {
public:
  OnlyDigits(gpuactors::Init init, const wire::ReplicaConfig& config) : ZeroDigits(std::move(init), config) {
    if (++made<OnlyDigits>() > 1)
      throw std::runtime_error{"there was one already"};
  }
};

GPUACTORS_ACTOR("test/only-digits", OnlyDigits, wire::ReplicaConfig)
    .method(describe_method, &OnlyDigits::describe)
    .method(infer_method, &OnlyDigits::infer);

/// A server whose model may have a canary, with a second file.
class CanaryServer {
public:
  CanaryServer() : server{{.notice = notices.taker()}, "host:2x256MiB"} {
    write_checkpoint(second(), 2);
  }

  [[nodiscard]] std::string second() const {
    return (server.folder / "second.safetensors").string();
  }

  [[nodiscard]] ModelConfig config(const std::string& file, const std::string& keys = "") const {
    return must(parse_model("digits=" + file + keys, {}));
  }

  /// The model with the first file, and the second one as its canary.
  [[nodiscard]] ModelEntry entry(double share, const std::string& keys = "") const {
    return {config(server.file().string()), CanaryConfig{config(second(), keys), share}};
  }

  void settle(const ModelEntry& what) {
    server.table.set(what);
    must(server.table.settle("digits"));
  }

  /// How many of so many requests, one after the other, each version answers.
  std::map<std::string, int> answers(int requests, const std::string& version = "") {
    std::map<std::string, int> result;
    for (int i = 0; i < requests; ++i) {
      auto request = request_for("digits", some_rows(1, 1));
      request.version = version;
      ++result[must(ask(server.table, std::move(request))).version];
    }
    return result;
  }

  [[nodiscard]] std::vector<std::string> versions() const {
    return must(server.table.describe("digits", "")).versions;
  }

  Notices notices;
  Server server;
};

using Answers = std::map<std::string, int>;
using Versions = std::vector<std::string>;

} // namespace

TEST_CASE("a canary gets exactly its share, which changes without a load", "[serve]") {
  CanaryServer canary;
  auto& table = canary.server.table;
  canary.settle(canary.entry(0.1));
  CHECK(canary.versions() == Versions{"2", "1"});
  CHECK(must(table.describe("digits", "2")).versions == Versions{"1", "2"});
  CHECK(canary.answers(30) == Answers{{"1", 27}, {"2", 3}});
  // Who only looks takes nothing of it.
  must(table.generative("digits", "", {}));
  CHECK(canary.answers(9) == Answers{{"1", 9}});
  CHECK(canary.answers(1) == Answers{{"2", 1}});
  table.set(canary.entry(0.5));
  CHECK_FALSE(table.is_missing("digits"));
  CHECK(canary.answers(10) == Answers{{"1", 5}, {"2", 5}});
  // Requests that name a version get that one, and count for no share.
  CHECK(canary.answers(3, "2") == Answers{{"2", 3}});
  CHECK(canary.answers(3, "1") == Answers{{"1", 3}});
  CHECK(canary.answers(2) == Answers{{"1", 1}, {"2", 1}});
  table.set(canary.entry(0));
  CHECK(canary.answers(5) == Answers{{"1", 5}});
  table.set(canary.entry(1));
  CHECK(canary.answers(5) == Answers{{"2", 5}});
  CHECK(canary.notices.take()
        == std::vector<std::string>{"model digits: version 2 serves beside version 1, and gets 0.1 of the requests",
                                    "model digits: version 2 gets 0.5 of the requests",
                                    "model digits: version 2 gets 0 of the requests",
                                    "model digits: version 2 gets 1 of the requests"});
}

TEST_CASE("each version of a model with a canary has its own answers, numbers and states", "[serve]") {
  CanaryServer canary;
  auto& table = canary.server.table;
  canary.settle(canary.entry(0.5, ",timeout=2500,gpus=0.5"));
  const auto x = some_rows(1, 1);
  for (const auto& [version, file] : {std::pair{"1", canary.server.file().string()}, std::pair{"2", canary.second()}}) {
    auto request = request_for("digits", x);
    request.version = version;
    const auto values = values_of(must(ask(table, std::move(request))));
    const auto y = expected(file, x);
    for (std::size_t i = 0; i < y.size(); ++i)
      CHECK(values.at(i) == Approx(y[i]).margin(1e-5));
    CHECK(must(table.model_ready("digits", version)));
    CHECK(must(table.statistics("digits", version)).size() == 1);
  }
  CHECK(must(table.describe("digits", "2")).default_timeout == gpuactors::Duration{2500ms});
  CHECK(must(table.describe("digits", "2")).gpus == 0.5);
  CHECK_FALSE(must(table.describe("digits", "1")).default_timeout);
  REQUIRE(must(table.statistics("digits", "")).size() == 2);
  CHECK(must(table.statistics("", "")).at(1).version == "2");
  const auto states = table.repository();
  REQUIRE(states.size() == 2);
  CHECK(states[1].version == "2");
  CHECK(states[1].state == "READY");
  CHECK(states[1].reason == "gets 0.5 of the requests");
  const auto text = table.metrics();
  for (const auto* version : {"1", "2"})
    CHECK(text.find(std::string{"nv_inference_count{model=\"digits\",version=\""} + version + "\"} 1\n")
          != std::string::npos);
}

TEST_CASE("a canary that becomes the model takes its place without a load, and one that is dropped goes", "[serve]") {
  CanaryServer canary;
  auto& table = canary.server.table;
  canary.settle(canary.entry(0.5));
  // It keeps its share until it is the model itself.
  table.set({canary.config(canary.second())});
  CHECK(canary.answers(4) == Answers{{"1", 2}, {"2", 2}});
  CHECK(table.is_missing("digits"));
  std::filesystem::remove(canary.second()); // it is not read again
  must(table.settle("digits"));
  CHECK(canary.versions() == Versions{"2"});
  CHECK(canary.answers(4) == Answers{{"2", 4}});
  CHECK(canary.notices.take().back() == "model digits, version 1 is unloaded");
  // The other way round: who is dropped gets nothing from then on.
  canary.settle({canary.config(canary.second()), CanaryConfig{canary.config(canary.server.file().string()), 1}});
  CHECK(canary.answers(2) == Answers{{"3", 2}});
  table.set({canary.config(canary.second())});
  CHECK(canary.answers(2) == Answers{{"2", 2}});
  must(table.settle("digits"));
  CHECK(canary.versions() == Versions{"2"});
  CHECK(table.repository().size() == 1);
  CHECK(must(canary.server.cluster.state()).leases_size() == 1);
}

TEST_CASE("a model and its canary may change places, and back, without a load", "[serve]") {
  CanaryServer canary;
  canary.settle(canary.entry(0));
  const auto forth = canary.entry(0);
  const ModelEntry back{forth.canary->config, CanaryConfig{forth.config, 0}};
  canary.settle(back);
  CHECK(canary.versions() == Versions{"1", "2"});
  CHECK(canary.answers(3) == Answers{{"2", 3}});
  canary.settle(forth);
  CHECK(canary.versions() == Versions{"2", "1"});
  CHECK(canary.answers(3) == Answers{{"1", 3}});
}

TEST_CASE("a canary that cannot be loaded, or asked like the model, keeps nobody from the model", "[serve]") {
  CanaryServer canary;
  auto& table = canary.server.table;
  auto wanted = canary.entry(0.5);
  wanted.canary->config.file += ".missing";
  table.set(wanted);
  const auto missing = table.settle("digits");
  CHECK(code_of(missing) == Errc::not_found);
  CHECK(says(missing, "the canary of model digits could not be loaded: "));
  CHECK(table.is_missing("digits"));
  CHECK(canary.answers(4) == Answers{{"1", 4}});
  CHECK(table.repository().at(0).reason.find("its canary could not be loaded, and is tried again: ") == 0);
  wanted.canary->config = must(parse_model("digits,actor=test/other-digits", {}));
  table.set(wanted);
  const auto other = table.settle("digits");
  CHECK(code_of(other) == Errc::invalid_argument);
  CHECK(says(other, "it is x FP32 [9] to y FP32 [3], and version 1, beside which it would serve, is x FP32 [8] to y"));
  CHECK(canary.answers(4) == Answers{{"1", 4}});
  canary.settle(canary.entry(0.5));
  CHECK(canary.answers(4).size() == 2);
  CHECK(table.repository().at(0).reason.empty());
}

TEST_CASE("a model that has neither its version nor its canary as it should be comes to both", "[serve]") {
  CanaryServer canary;
  canary.settle(canary.entry(0.5));
  const auto third = (canary.server.folder / "third.safetensors").string();
  write_checkpoint(third, 3);
  canary.settle({canary.config(third), CanaryConfig{canary.config(canary.second(), ",max-batch=4"), 0.5}});
  CHECK(canary.versions() == Versions{"4", "3"});
  CHECK(must(canary.server.table.describe("digits", "4")).max_batch == 4);
  // A load by a client is of the model itself, and after an unload brings both.
  must(canary.server.table.load("digits", {}));
  CHECK(canary.versions() == Versions{"4", "5"});
  must(canary.server.table.unload("digits"));
  CHECK(code_of(ask(canary.server.table, request_for("digits", some_rows(1, 1)))) == Errc::unavailable);
  CHECK(must(canary.server.cluster.state()).leases_size() == 0);
  must(canary.server.table.load("digits", {}));
  CHECK(canary.versions() == Versions{"7", "6"});
  CHECK(canary.answers(4) == Answers{{"6", 2}, {"7", 2}});
}

TEST_CASE("where there is no room for a new version, a canary that nobody wants makes it", "[serve]") {
  TableOptions options;
  options.load_wait = 100ms;
  Server small{options, "host:1x64MiB"};
  const auto half = [&](std::uint64_t seed) {
    const auto file = small.folder / (std::to_string(seed) + ".safetensors");
    write_checkpoint(file, seed);
    return must(parse_model("digits=" + file.string() + ",gpus=0.5", {}));
  };
  small.table.set({half(1), CanaryConfig{half(2), 0.5}});
  must(small.table.settle("digits"));
  small.table.set({half(3)});
  must(small.table.settle("digits"));
  CHECK(must(small.table.describe("digits", "")).versions == Versions{"3"});
}

TEST_CASE("a canary that has lost its replicas gets no requests that name no version", "[serve]") {
  CanaryServer canary;
  auto wanted = canary.entry(1);
  wanted.canary->config = must(parse_model("digits,actor=test/only-digits", {}));
  canary.settle(wanted);
  CHECK(canary.answers(2) == Answers{{"2", 2}});
  must(canary.server.cluster.kill("digits/2/1"));
  REQUIRE(gpuactors::test::eventually([&] { return !must(canary.server.table.model_ready("digits", "2")); }));
  CHECK(canary.answers(2) == Answers{{"1", 2}});
  CHECK(canary.server.table.ready());
}

TEST_CASE("replicas of a deployment that are alike are the model's, and none is left over", "[serve]") {
  Server server{{}, "host:4x64MiB"};
  TableOptions options;
  options.deployment = "prod";
  const auto base = must(parse_model("digits=" + server.file().string() + ",gpus=0.5", {}));
  auto other = base;
  other.max_delay = 5ms; // which no replica is told
  for (int round = 0; round < 3; ++round) {
    INFO(round);
    ModelTable table{server.cluster, options};
    table.set({base, CanaryConfig{other, 0.5}});
    must(table.settle("digits"));
    CHECK(gpuactors::test::eventually([&] { return must(server.cluster.state()).leases_size() == 2; }));
    table.close(gpuactors::TimePoint{});
  }
}

TEST_CASE("of the replicas of a deployment, those of a canary are not left over when another one was wanted at first",
          "[serve]") {
  Server server{{}, "host:4x64MiB"};
  TableOptions options;
  options.deployment = "prod";
  const auto second = server.folder / "second.safetensors";
  write_checkpoint(second, 2);
  const auto base = must(parse_model("digits=" + server.file().string() + ",gpus=0.5", {}));
  const ModelEntry wanted{base, CanaryConfig{must(parse_model("digits=" + second.string() + ",gpus=0.5", {})), 0.5}};
  {
    ModelTable table{server.cluster, options};
    table.set(wanted);
    must(table.settle("digits"));
    table.close(gpuactors::TimePoint{});
  }
  CHECK(must(server.cluster.state()).leases_size() == 2);
  ModelTable table{server.cluster, options};
  auto missing = wanted;
  missing.canary->config.actor = "none/such";
  table.set(missing);
  CHECK_FALSE(table.settle("digits"));
  table.set(wanted);
  must(table.settle("digits"));
  CHECK(gpuactors::test::eventually([&] { return must(server.cluster.state()).leases_size() == 2; }));
}

TEST_CASE("a canary gets nothing when the model is to be a third thing", "[serve]") {
  CanaryServer canary;
  auto& table = canary.server.table;
  canary.settle(canary.entry(0.5));
  table.set({canary.config(canary.server.file().string(), ",max-batch=4")});
  CHECK(canary.answers(4) == Answers{{"1", 4}});
  must(table.settle("digits"));
  CHECK(canary.versions() == Versions{"3"});
}

TEST_CASE("a canary that nobody wants goes with the version beside which it was, also while that has requests",
          "[serve]") {
  CanaryServer canary;
  auto& table = canary.server.table;
  const auto gated = must(parse_model("digits,actor=test/gated", {}));
  canary.settle({gated, CanaryConfig{must(parse_model("digits,actor=test/gated,max-batch=4", {})), 0.5}});
  const ClosedGate closed;
  auto held = request_for("digits", some_rows(1, 1));
  held.version = "1";
  auto asked = ask_async(table, std::move(held));
  table.set({must(parse_model("digits,actor=test/other-digits", {}))});
  auto settling = std::async(std::launch::async, [&] { return table.settle("digits"); });
  REQUIRE(gpuactors::test::eventually([&] { return canary.versions() == Versions{"3"}; }));
  // All are asked of the new version, which has other inputs.
  for (int i = 0; i < 4; ++i)
    CHECK(code_of(ask(table, request_for("digits", some_rows(1, 1)))) == Errc::invalid_argument);
  CHECK(settling.wait_for(0s) != std::future_status::ready);
  gate().open();
  must(settling.get());
  must(asked.reply.get());
}

TEST_CASE("a canary that is wanted only while another version of the model comes goes if it does not fit that",
          "[serve]") {
  ClosedGate closed;
  CanaryServer canary;
  auto& table = canary.server.table;
  canary.settle(canary.entry(0.5));
  const ModelConfig third = must(parse_model("digits,actor=test/slow-digits", {}));
  table.set({third});
  auto settling = std::async(std::launch::async, [&] { return table.settle("digits"); });
  gate().await(1);
  auto wanted = canary.entry(0.5);
  wanted.config = third;
  table.set(wanted);
  CHECK(canary.answers(2) == Answers{{"1", 1}, {"2", 1}});
  gate().open();
  const auto settled = settling.get();
  CHECK(says(settled, "the canary of model digits could not be loaded: it is x FP32 [8] to y FP32 [3], and version 3"));
  CHECK(canary.versions() == Versions{"3"});
}

TEST_CASE("a model that is what its new canary should be becomes that when the new version has come", "[serve]") {
  CanaryServer canary;
  const auto first = canary.config(canary.server.file().string());
  canary.settle({first});
  std::filesystem::remove(canary.server.file()); // it is not read again
  canary.settle({canary.config(canary.second()), CanaryConfig{first, 0.5}});
  CHECK(canary.versions() == Versions{"1", "2"});
  CHECK(canary.answers(4) == Answers{{"1", 2}, {"2", 2}});
  CHECK(canary.notices.take()
        == std::vector<std::string>{"model digits: version 2 serves in the place of version 1",
                                    "model digits: version 1 serves beside version 2, and gets 0.5 of the requests"});
}

TEST_CASE("what only the model takes goes to it, although it is its canary's turn", "[serve]") {
  CanaryServer canary;
  canary.settle(canary.entry(1, ",max-batch=4"));
  CHECK(must(ask(canary.server.table, request_for("digits", some_rows(4, 1)))).version == "2");
  CHECK(must(ask(canary.server.table, request_for("digits", some_rows(5, 1)))).version == "1");
  CHECK(says(ask(canary.server.table, request_for("digits", some_rows(33, 1))), "32"));
  auto named = request_for("digits", some_rows(5, 1));
  named.version = "2";
  CHECK(code_of(ask(canary.server.table, std::move(named))) == Errc::invalid_argument);
}

TEST_CASE("a canary that comes is owed nothing of what another one had", "[serve]") {
  CanaryServer canary;
  canary.settle(canary.entry(0.75));
  CHECK(canary.answers(1) == Answers{{"1", 1}});
  canary.settle({canary.config(canary.server.file().string())});
  canary.settle(canary.entry(0.5));
  CHECK(canary.answers(1) == Answers{{"1", 1}});
  CHECK(canary.answers(1) == Answers{{"3", 1}});
}
