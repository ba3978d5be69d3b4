// Labels, wished nodes and distances in a scenario.
#include <gpuactors/plan/plan.hpp>

#include <support/catch.hpp>

#include <sstream>
#include <string>

namespace {

std::string plan(const std::string& node, const std::string& steps) {
  std::istringstream in(R"({"nodes":[{"name":"n0","labels":{"zone":"b"},)" + node + R"(}],"steps":[)" + steps + "]}");
  std::ostringstream out;
  const auto result = gpuactors::run_plan(in, out);
  return result ? out.str() : "error: " + result.error().message();
}

const std::string three_devices = R"("devices":[{"count":3,"memory_bytes":"100"}])";

std::string submit(const std::string& fields) {
  const auto out = plan(three_devices, R"({"submit":{"id":"a",)" + fields + "}}");
  return out.substr(0, out.find('\n'));
}

} // namespace

TEST_CASE("labels of a scenario take a value, a list, and the operators in, not_in and exists") {
  const std::string granted = R"({"step":0,"event":"granted","id":"a","node":"n0","devices":[]})";
  CHECK(submit(R"("labels":{"zone":"b"})") == granted);
  CHECK(submit(R"("labels":{"zone":["a","b"]})") == granted);
  CHECK(submit(R"("labels":{"zone":{"in":["b"]},"rack":{"exists":false}})") == granted);
  CHECK(submit(R"("labels":{"zone":{"not_in":["a"]}})") == granted);
  CHECK(
      submit(R"("labels":{"zone":{"not_in":["b"]}})")
      == R"({"step":0,"event":"infeasible","id":"a","reason":"no node has the labels: on node n0 label zone is \"b\", )"
         R"(asked: not in [b]"})");
  CHECK(submit(R"("labels":{"zone":[]})")
        == R"({"step":0,"event":"rejected","id":"a","reason":"label zone: name at least one value"})");
}

TEST_CASE("conditions on labels that are not in the format are errors with their place") {
  const std::string at = "error: steps[0].submit.labels.zone";
  CHECK(submit(R"("labels":{"zone":1})")
        == at + " is 1: a string, an array of strings, or an object with in, not_in or exists is expected");
  CHECK(submit(R"("labels":{"zone":{"inn":["a"]}})") == at + ".inn: unknown field; did you mean \"in\"?");
  CHECK(submit(R"("labels":{"zone":{}})") == at + " has 0 fields: exactly one of in, not_in, exists is expected");
  CHECK(submit(R"("labels":{"zone":{"in":"a"}})") == at + ".in is \"a\": an array of strings is expected");
  CHECK(submit(R"("labels":{"zone":{"exists":1}})") == at + ".exists is 1: true or false is expected");
}

TEST_CASE("a node of a scenario may be a wish") {
  CHECK(submit(R"("node":"n1","node_soft":true)")
        == R"({"step":0,"event":"granted","id":"a","node":"n0","devices":[]})");
}

TEST_CASE("distances and NUMA nodes of a scenario decide which devices go together") {
  const std::string step = R"({"submit":{"id":"a","gpus":2}})";
  const std::string far = R"(,"distances":[[0,9,9],[9,0,1],[9,1,0]])";
  CHECK(plan(three_devices + far, step).find(R"([{"index":1,"share":1,"memory_bytes":"100"},{"index":2)")
        != std::string::npos);
  const std::string numa = R"("devices":[{"numa_node":0},{"count":2,"numa_node":1}])";
  CHECK(plan(numa, step).find(R"([{"index":1,"share":1,"memory_bytes":"0"},{"index":2)") != std::string::npos);
}

TEST_CASE("distances that make no sense are errors with their place") {
  const auto error = [](const std::string& distances) {
    return plan(three_devices + R"(,"distances":)" + distances, "");
  };
  CHECK(error("[[0,1]]") == "error: nodes[0]: node n0: distances has 1 rows for 3 devices: one for each is needed");
  CHECK(error("[1]") == "error: nodes[0].distances[0] is 1: an array of whole numbers is expected");
  CHECK(error("[[-1]]") == "error: nodes[0].distances[0][0] is -1: a whole number from 0 to 1000 is expected");
  CHECK(plan(R"("devices":[{"numa_node":-1}])", "")
        == "error: nodes[0].devices[0].numa_node is -1: it cannot be negative");
}

TEST_CASE("nodes of a scenario may say which types of tasks and actors they have, and requests which they are for") {
  const std::string with = three_devices + R"(,"types":["task blur","actor model"])";
  const auto first = [&](const std::string& node, const std::string& fields) {
    const auto out = plan(node, R"({"submit":{"id":"a",)" + fields + "}}");
    return out.substr(0, out.find('\n'));
  };
  const std::string granted = R"({"step":0,"event":"granted","id":"a","node":"n0","devices":[]})";
  CHECK(first(with, R"("type":"task blur")") == granted);
  CHECK(first(with, R"("cpus":0)") == granted);
  CHECK(first(three_devices, R"("type":"task blur")") == granted);
  CHECK(first(with, R"("type":"task blurr")")
        == R"({"step":0,"event":"infeasible","id":"a","reason":"no node has the type \"task blurr\": 1 node is )"
           R"(registered; did you mean \"task blur\"?"})");
  CHECK(plan(three_devices + R"(,"types":"task blur")", "")
        == "error: nodes[0].types is \"task blur\": an array of strings is expected");
  CHECK(plan(three_devices + R"(,"types":[""])", "")
        == "error: nodes[0]: node n0 has a type with an empty name: give it one");
}
