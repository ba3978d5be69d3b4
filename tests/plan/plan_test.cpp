// Scenarios in, JSON lines out, exactly.
#include <gpuactors/plan/plan.hpp>

#include <support/catch.hpp>

#include <fstream>
#include <sstream>
#include <string>

using gpuactors::Errc;
using gpuactors::run_plan;

namespace {

// Two devices of 100 bytes each: shares and bytes are easy to read.
const std::string two_devices = R"("nodes":[{"name":"n0","devices":[{"count":2,"memory_bytes":"100"}]}])";

std::string plan(const std::string& scenario) {
  std::istringstream in(scenario);
  std::ostringstream out;
  const auto result = run_plan(in, out);
  return result ? out.str() : "error: " + result.error().message();
}

std::string with_steps(const std::string& steps) {
  return plan("{" + two_devices + R"(,"steps":[)" + steps + "]}");
}

std::string error_of(const std::string& scenario) {
  std::istringstream in(scenario);
  std::ostringstream out;
  const auto result = run_plan(in, out);
  REQUIRE_FALSE(result);
  CHECK(result.error().code() == Errc::invalid_argument);
  CHECK(result.error().message().find('\n') == std::string::npos);
  return result.error().message();
}

std::string error_of_step(const std::string& step) {
  return error_of("{" + two_devices + R"(,"steps":[)" + step + "]}");
}

} // namespace

TEST_CASE("a field that comes twice in one object is refused, and not only its last value read") {
  CHECK(error_of_step(R"({"submit":{"id":"a","gpus":1},"submit":{"id":"b","gpus":1}})")
        == "steps[0]: submit is there twice in one object");
  CHECK(error_of_step(R"({"submit":{"id":"a","gpus":1}},{"submit":{"id":"b","gpus":1,"gpus":0.5}})")
        == "steps[1]: gpus is there twice in one object");
  CHECK(error_of(R"({"nodes":[{"name":"n0","labels":{"a":"1","a":"2"}}],"steps":[]})")
        == "nodes[0]: a is there twice in one object");
  // In two objects it is as it should be.
  CHECK(with_steps(R"({"submit_group":{"id":"g","bundles":[{"gpus":1},{"gpus":1}]}},{"advance":{"seconds":1}})")
            .find("error")
        == std::string::npos);
}

TEST_CASE("steps before the nodes may be nested as deeply as anything is read") {
  constexpr std::size_t depth = 200'000;
  CHECK(
      error_of(R"({"steps":[)" + std::string(depth, '[') + std::string(depth, ']') + "]}").find("steps[0] is an array")
      != std::string::npos);
}

TEST_CASE("the scenario of the contract gives exactly these lines") {
  const auto lines = plan(R"(
{"nodes":[{"name":"n0","cpus":16,"labels":{"zone":"a"},"resources":{"neuron_cores":2},
           "devices":[{"accelerator_type":"H100","count":8,"memory_bytes":"85899345920"}]}],
 "steps":[{"submit":{"id":"a","gpus":0.6}},
          {"submit":{"id":"b","memory_bytes":"6442450944","accelerator_type":"H100","cpus":1,"resources":{"neuron_cores":1},
                     "node":"n0","labels":{"zone":"a"},"priority":5,"strategy":"SPREAD","wait_for_nodes":true}},
          {"submit_group":{"id":"g","strategy":"STRICT_SPREAD","bundles":[{"gpus":1},{"gpus":1}]}},
          {"submit_group":{"id":"h","strategy":"STRICT_PACK","bundles":[{"gpus":1},{"gpus":0.5}]}},
          {"submit":{"id":"c","gpus":1,"group":"h","bundle":0}},
          {"release":{"id":"a"}},
          {"release_group":{"id":"h"}},
          {"fail_device":{"node":"n0","index":1}},
          {"advance":{"seconds":5}}]})");
  CHECK(
      lines
      == R"({"step":0,"event":"granted","id":"a","node":"n0","devices":[{"index":0,"share":0.6,"memory_bytes":"51539607552"}]}
{"step":1,"event":"granted","id":"b","node":"n0","devices":[{"index":1,"share":0.075,"memory_bytes":"6442450944"}]}
{"step":2,"event":"infeasible","id":"g","reason":"the 2 bundles need a node each: the number of nodes is 1"}
{"step":3,"event":"granted","id":"h","bundles":[{"node":"n0","devices":[{"index":2,"share":1,"memory_bytes":"85899345920"}]},{"node":"n0","devices":[{"index":1,"share":0.5,"memory_bytes":"42949672960"}]}]}
{"step":4,"event":"granted","id":"c","node":"n0","devices":[{"index":2,"share":1,"memory_bytes":"85899345920"}]}
{"step":5,"event":"released","id":"a"}
{"step":6,"event":"released","id":"h"}
{"step":6,"event":"lost","id":"c","reason":"its placement group was removed"}
{"step":7,"event":"lost","id":"b","reason":"device 1 of node n0 failed"}
{"final":{"nodes":[{"name":"n0","devices":[{"index":0,"free_share":1,"free_memory_bytes":"85899345920","leases":[]},{"index":1,"free_share":0,"free_memory_bytes":"0","leases":[],"state":"failed"},{"index":2,"free_share":1,"free_memory_bytes":"85899345920","leases":[]},{"index":3,"free_share":1,"free_memory_bytes":"85899345920","leases":[]},{"index":4,"free_share":1,"free_memory_bytes":"85899345920","leases":[]},{"index":5,"free_share":1,"free_memory_bytes":"85899345920","leases":[]},{"index":6,"free_share":1,"free_memory_bytes":"85899345920","leases":[]},{"index":7,"free_share":1,"free_memory_bytes":"85899345920","leases":[]}]}],"pending":[]}}
)");
}

TEST_CASE("a grant that a later step makes possible carries that later step's number") {
  CHECK(
      with_steps(R"({"submit":{"id":"a","gpus":2}},{"submit":{"id":"b","gpus":0.25}},{"release":{"id":"a"}})")
      == R"({"step":0,"event":"granted","id":"a","node":"n0","devices":[{"index":0,"share":1,"memory_bytes":"100"},{"index":1,"share":1,"memory_bytes":"100"}]}
{"step":1,"event":"pending","id":"b","reason":"no node has 0.25 of a device free: the most on one device is 0, on node n0"}
{"step":2,"event":"released","id":"a"}
{"step":2,"event":"granted","id":"b","node":"n0","devices":[{"index":0,"share":0.25,"memory_bytes":"25"}]}
{"final":{"nodes":[{"name":"n0","devices":[{"index":0,"free_share":0.75,"free_memory_bytes":"75","leases":["b"]},{"index":1,"free_share":1,"free_memory_bytes":"100","leases":[]}]}],"pending":[]}}
)");
}

TEST_CASE("what waits at the end is listed in the order of the queue") {
  const auto lines = with_steps(R"({"submit":{"id":"a","gpus":2}},{"submit":{"id":"low","gpus":1,"priority":-1}},
      {"submit":{"id":"b","gpus":1}},{"submit_group":{"id":"g","priority":3,"bundles":[{"gpus":1}]}})");
  CHECK(lines.find(R"("pending":["g","b","low"]})") != std::string::npos);
}

TEST_CASE("release withdraws what waits and has no effect on what was refused or lost") {
  const auto lines = with_steps(
      R"({"submit":{"id":"a","gpus":2}},{"submit":{"id":"b","gpus":1}},{"release":{"id":"b"}},
         {"submit":{"id":"c","gpus":1.5}},{"release":{"id":"c"}},{"remove_node":{"name":"n0"}},{"release":{"id":"a"}})");
  CHECK(lines.find(R"({"step":2,"event":"released","id":"b","reason":"withdrawn while it waited"})")
        != std::string::npos);
  CHECK(lines.find(R"({"step":3,"event":"rejected","id":"c","reason":"gpus is 1.5: ask for a fraction below 1)")
        != std::string::npos);
  CHECK(lines.find("{\"step\":4,\"event\":\"released\",\"id\":\"c\"}\n") != std::string::npos);
  CHECK(lines.find(R"({"step":5,"event":"lost","id":"a","reason":"node n0 was removed"})") != std::string::npos);
  CHECK(lines.find("{\"step\":6,\"event\":\"released\",\"id\":\"a\"}\n") != std::string::npos);
}

TEST_CASE("ids that are over are remembered, however many they are") {
  std::string steps;
  for (int i = 0; i < 3000; ++i)
    steps += R"({"submit":{"id":"job-)" + std::to_string(i) + R"("}},{"release":{"id":"job-)" + std::to_string(i)
             + R"("}},)";
  CHECK(error_of_step(steps + R"({"release":{"id":"job-1234"}})")
        == "steps[6000].release.id is \"job-1234\", which was released before");
  CHECK(error_of_step(steps + R"({"submit":{"id":"job-1"}})")
        == "steps[6000].submit.id is \"job-1\", which is taken: each id is used once");
  CHECK(with_steps(steps + R"({"submit":{"id":"job-3000"}})").find(R"("event":"granted","id":"job-3000")")
        != std::string::npos);
  // What a parent or group held is gone with it.
  CHECK(with_steps(steps + R"({"submit":{"id":"c","gpus":1,"parent":"job-7"}})")
            .find(R"({"step":6000,"event":"granted","id":"c")")
        != std::string::npos);
  CHECK(with_steps(R"({"submit_group":{"id":"g","bundles":[{"gpus":1}]}},{"release_group":{"id":"g"}},
                      {"submit":{"id":"c","gpus":1,"group":"g"}})")
            .find(R"("event":"rejected","id":"c","reason":"placement group \"g\" is not there any more")")
        != std::string::npos);
}

TEST_CASE("nodes come and go by steps, and time passes by steps") {
  const auto lines = plan(R"({"steps":[{"submit":{"id":"a","gpus":1,"wait_for_nodes":true}},
      {"submit":{"id":"t","gpus":1,"wait_for_nodes":true,"queue_timeout":2}},{"advance":{"seconds":2}},
      {"add_node":{"name":"n0","devices":[{"memory_bytes":"100"}]}},{"drain_node":{"name":"n0"}},
      {"submit":{"id":"b","gpus":1}}]})");
  CHECK(lines.find(R"({"step":0,"event":"pending","id":"a","reason":"it waits for new nodes: no node is registered"})")
        != std::string::npos);
  CHECK(lines.find(R"({"step":2,"event":"rejected","id":"t","reason":"waited 2 s in vain)") != std::string::npos);
  CHECK(lines.find(R"({"step":3,"event":"granted","id":"a","node":"n0")") != std::string::npos);
  CHECK(lines.find(R"({"step":5,"event":"pending","id":"b",)") != std::string::npos);
  CHECK(lines.find(R"("state":"draining")") != std::string::npos);
}

TEST_CASE("what only a drained node could take waits for it, and is infeasible when the node is removed") {
  const auto drained = [](const std::string& then) {
    return with_steps(R"({"submit":{"id":"a","gpus":2}},{"submit":{"id":"b","gpus":1}},{"drain_node":{"name":"n0"}},
        {"submit":{"id":"c","gpus":0.5,"node":"n0"}},{"submit":{"id":"d","gpus":3}},
        {"submit_group":{"id":"g","bundles":[{"gpus":1},{"gpus":1}]}},{"release":{"id":"a"}},)"
                      + then);
  };
  const auto back = drained(R"({"undrain_node":{"name":"n0"}})");
  for (const auto* line :
       {R"({"step":3,"event":"pending","id":"c","reason":"every node that could serve it is being drained: n0"})",
        R"({"step":4,"event":"infeasible","id":"d","reason":"no node has 3 devices: node n0 has 2"})",
        R"({"step":5,"event":"pending","id":"g","reason":"the bundles have no place without the nodes that are being )"
        R"(drained: n0"})",
        R"({"step":6,"event":"released","id":"a"})", R"({"step":7,"event":"granted","id":"b","node":"n0")",
        R"({"step":7,"event":"granted","id":"c","node":"n0")"}) {
    INFO(back << line);
    CHECK(back.find(line) != std::string::npos);
  }
  const auto gone = drained(R"({"remove_node":{"name":"n0"}})");
  for (const std::string id : {"b", "c", "g"}) {
    INFO(gone << id);
    CHECK(gone.find(R"({"step":7,"event":"infeasible","id":")" + id + R"(","reason":")") != std::string::npos);
  }
}

TEST_CASE("time that passes late is noticed by the ledger with the next step") {
  const std::string waiting = R"({"submit":{"id":"a","gpus":2}},{"submit":{"id":"t","gpus":1,"queue_timeout":2}},)";
  CHECK(with_steps(waiting + R"({"advance":{"seconds":5,"late":true}},{"release":{"id":"a"}})")
            .find(R"({"step":3,"event":"rejected","id":"t","reason":"waited 2 s in vain)")
        != std::string::npos);
  CHECK(with_steps(waiting + R"({"advance":{"seconds":5}},{"release":{"id":"a"}})")
            .find(R"({"step":2,"event":"rejected","id":"t")")
        != std::string::npos);
}

TEST_CASE("steps may come before the nodes in the file") {
  const auto lines = plan(R"({"steps":[{"submit":{"id":"a","gpus":1}}],)" + two_devices + "}");
  CHECK(lines.find(R"({"step":0,"event":"granted","id":"a")") != std::string::npos);
}

TEST_CASE("bytes are whole numbers, as JSON strings or numbers") {
  for (const auto* bytes : {"\"40\"", "40", "4e1"})
    CHECK(with_steps(std::string{R"({"submit":{"id":"a","memory_bytes":)"} + bytes + "}}")
              .find(R"("devices":[{"index":0,"share":0.4,"memory_bytes":"40"}])")
          != std::string::npos);
  for (const auto* bytes : {"\"4 0\"", "\"\"", "0.5", "true", "\"99999999999999999999\"", "18446744073709551615"})
    CHECK(error_of_step(std::string{R"({"submit":{"id":"a","memory_bytes":)"} + bytes + "}}")
          == std::string{"steps[0].submit.memory_bytes is "} + bytes + ": a whole number is expected");
}

TEST_CASE("shares too fine or too large are answers, negative ones are errors") {
  CHECK(with_steps(R"({"submit":{"id":"a","gpus":0.00001}})").find(R"("event":"rejected")") != std::string::npos);
  CHECK(with_steps(R"({"submit":{"id":"a","resources":{"gpu":1}}})").find("use the field gpus instead")
        != std::string::npos);
  CHECK(with_steps(R"({"submit_group":{"id":"g","bundles":[]}})").find("needs at least one bundle")
        != std::string::npos);
  CHECK(error_of_step(R"({"submit":{"id":"a","gpus":-0.5}})") == "steps[0].submit.gpus is -0.5: it cannot be negative");
  CHECK(error_of_step(R"({"submit":{"id":"a","memory_bytes":"-1"}})")
        == "steps[0].submit.memory_bytes is -1: it cannot be negative");
  CHECK(error_of_step(R"({"submit":{"id":"a","resources":{"x":-1}}})")
        == "steps[0].submit.resources.x is -1: it cannot be negative");
  CHECK(error_of(R"({"nodes":[{"name":"n","devices":[{"count":-2}]}]})")
        == "nodes[0].devices[0].count is -2: it cannot be negative");
  CHECK(error_of_step(R"({"advance":{"seconds":-1}})") == "steps[0].advance.seconds is -1: it cannot be negative");
}

TEST_CASE("a scenario has owners and their quotas") {
  const auto lines = with_steps(R"({"set_quota":{"owner":"alice","gpus":0.75}},
          {"submit":{"id":"a","gpus":0.5,"owner":"alice"}},
          {"submit":{"id":"b","gpus":0.5,"owner":"alice"}},
          {"submit_group":{"id":"g","owner":"alice","bundles":[{"gpus":1}]}},
          {"set_quota":{"owner":"alice"}})");
  CHECK(lines.find(
            R"("step":2,"event":"pending","id":"b","reason":"the quota of \"alice\" is 0.75 devices, it holds 0.5)")
        != std::string::npos);
  CHECK(lines.find(R"("step":3,"event":"infeasible","id":"g")") != std::string::npos);
  CHECK(lines.find(R"("step":4,"event":"granted","id":"b")") != std::string::npos);
  CHECK(error_of_step(R"({"set_quota":{"owner":"alice"}})") == "steps[0].set_quota: no quota is set for \"alice\"");
  CHECK(error_of_step(R"({"set_quota":{"owner":"alice","gpus":0.00001}})").find("steps[0].set_quota: gpus") == 0);
}

TEST_CASE("an unknown field is named with its place and what was probably meant") {
  CHECK(error_of_step(R"({"submit":{"id":"a","gpsu":1}})")
        == "steps[0].submit.gpsu: unknown field; did you mean \"gpus\"?");
  CHECK(error_of_step(R"({"submitt":{}})").find("steps[0].submitt: unknown field; did you mean \"submit\"") == 0);
  CHECK(error_of(R"({"node":[]})") == "node: unknown field; did you mean \"nodes\"?");
  CHECK(error_of(R"({"nodes":[{"name":"n","devices":[{"kount":1}]}]})")
        == "nodes[0].devices[0].kount: unknown field; did you mean \"count\"?");
}

TEST_CASE("ids that nobody submitted, or that were released before, are errors") {
  CHECK(error_of_step(R"({"submit":{"id":"job1"}},{"release":{"id":"job2"}})")
        == "steps[1].release.id is \"job2\", which no step before has submitted; did you mean \"job1\"?");
  CHECK(error_of_step(R"({"submit":{"id":"a"}},{"release":{"id":"a"}},{"release":{"id":"a"}})")
        == "steps[2].release.id is \"a\", which was released before");
  CHECK(error_of_step(R"({"submit":{"id":"a","gpus":3}},{"release":{"id":"a"}},{"release":{"id":"a"}})")
        == "steps[2].release.id is \"a\", which was released before");
  CHECK(error_of_step(R"({"submit":{"id":"a"}},{"submit":{"id":"a"}})")
        == "steps[1].submit.id is \"a\", which is taken: each id is used once");
  CHECK(error_of_step(R"({"submit":{"id":"a"}},{"release":{"id":"a"}},{"submit":{"id":"a"}})")
        == "steps[2].submit.id is \"a\", which is taken: each id is used once");
  CHECK(error_of_step(R"({"submit":{"id":"a","gpus":3}},{"submit":{"id":"a"}})")
        == "steps[1].submit.id is \"a\", which is taken: each id is used once");
  CHECK(error_of_step(R"({"submit":{"id":"a","group":"g"}})")
        == "steps[0].submit.group is \"g\", which no step before has submitted");
  CHECK(error_of_step(R"({"release_group":{"id":"g"}})")
        == "steps[0].release_group.id is \"g\", which no step before has submitted");
  CHECK(error_of_step(R"({"drain_node":{"name":"n1"}})")
        == "steps[0].drain_node: there is no node \"n1\"; did you mean \"n0\"?");
  CHECK(error_of_step(R"({"fail_device":{"node":"n0","index":2}})")
        == "steps[0].fail_device: node n0 has no device 2: it has 2 devices");
}

TEST_CASE("what is not JSON, or has the wrong type, is an error with its place") {
  CHECK(error_of("{\n \"nodes\": [}").find("parse error at line 2, column 12") == 0);
  CHECK(error_of("").find("parse error at line 1, column 1") == 0);
  CHECK(error_of_step(R"({"submit":{"id":"a","gpus":1e999}})") == "steps[0]: number overflow parsing '1e999'");
  CHECK(error_of("{\"steps\":[],}").find("parse error at line 1, column 13") == 0);
  CHECK(error_of("[]") == "the scenario is no object: {\"nodes\":[...],\"steps\":[...]} is expected");
  CHECK(error_of("3") == "the scenario is no object: {\"nodes\":[...],\"steps\":[...]} is expected");
  CHECK(error_of(R"({"nodes":{}})") == "nodes is no array: an array of objects is expected");
  CHECK(error_of(R"({"steps":[3]})") == "steps[0] is 3: an object is expected");
  CHECK(error_of(R"({"steps":[{}]})").find("steps[0] has 0 fields: exactly one of submit") == 0);
  CHECK(error_of_step(R"({"submit":{"gpus":1}})") == "steps[0].submit.id is missing");
  CHECK(error_of_step(R"({"submit":{"id":1}})") == "steps[0].submit.id is 1: a string is expected");
  CHECK(error_of_step(R"({"submit":{"id":"a","gpus":"1"}})") == "steps[0].submit.gpus is \"1\": a number is expected");
  CHECK(error_of_step(R"({"submit":{"id":"a","strategy":"pack"}})")
        == "steps[0].submit.strategy is \"pack\": PACK or SPREAD is expected");
}

TEST_CASE("the example of docs/reference/scheduling.md is what happens") {
  std::ifstream file(std::string{GPUACTORS_SOURCE_DIR} + "/docs/reference/scheduling.md");
  REQUIRE(file);
  std::stringstream text;
  text << file.rdbuf();
  const auto block = [&](const std::string& kind) {
    const auto fence = "```" + kind + "\n";
    const auto begin = text.str().find(fence);
    REQUIRE(begin != std::string::npos);
    const auto from = begin + fence.size();
    return text.str().substr(from, text.str().find("```", from) - from);
  };
  CHECK(plan(block("json")) == block("jsonl"));
}
