// Every refusal and every wait says which constraint, what was asked, and what the best node has.
#include <gpuactors/plan/plan.hpp>

#include <support/catch.hpp>

#include <sstream>
#include <string>

using gpuactors::run_plan;

namespace {

const std::string three_nodes = R"("nodes":[
  {"name":"n0","cpus":4,"resources":{"neuron_cores":2},"host_memory_bytes":"2147483648","labels":{"zone":"a"},
   "devices":[{"accelerator_type":"H100","count":2,"memory_bytes":"100"}]},
  {"name":"n1","devices":[{"accelerator_type":"V100","count":1,"memory_bytes":"40"}]}])";

// The reason of the last event about `id`.
std::string reason_of(const std::string& steps, const std::string& event, const std::string& id) {
  std::istringstream in("{" + three_nodes + R"(,"steps":[)" + steps + "]}");
  std::ostringstream out;
  const auto result = run_plan(in, out);
  REQUIRE(result);
  const auto start = R"("event":")" + event + R"(","id":")" + id + R"(","reason":")";
  const auto at = out.str().rfind(start);
  INFO(out.str());
  REQUIRE(at != std::string::npos);
  const auto from = at + start.size();
  return out.str().substr(from, out.str().find("\"}\n", from) - from);
}

std::string infeasible(const std::string& request) {
  return reason_of(R"({"submit":{"id":"x",)" + request + "}}", "infeasible", "x");
}

// With both devices of n0, its cpus and its neuron cores in use.
std::string pending(const std::string& request) {
  return reason_of(R"({"submit":{"id":"a","gpus":2,"cpus":4,"resources":{"neuron_cores":2}}},
                      {"submit":{"id":"b","gpus":0.75,"accelerator_type":"V100"}},{"submit":{"id":"x",)"
                       + request + "}}",
                   "pending", "x");
}

} // namespace

TEST_CASE("what can never be served says what no node has and what the nearest has") {
  CHECK(infeasible(R"("gpus":3)") == "no node has 3 devices: node n0 has 2");
  CHECK(infeasible(R"("gpus":2,"accelerator_type":"V100")") == "no node has 2 devices of type V100: node n1 has 1");
  CHECK(infeasible(R"("gpus":1,"accelerator_type":"A100")") == "no node has 1 device of type A100: node n0 has H100");
  CHECK(infeasible(R"("accelerator_type":"A100")") == "no node has a device of type A100: node n0 has H100");
  CHECK(infeasible(R"("memory_bytes":"200")")
        == "no node has 200 bytes (200 B) on one device: the most is 100 bytes (100 B), on node n0");
  CHECK(infeasible(R"("gpus":2,"memory_bytes":"200")")
        == "no node has 2 devices with 200 bytes (200 B) each: node n0 has 0");
  CHECK(infeasible(R"("gpus":0.5,"memory_bytes":"200")")
        == "no node has 200 bytes (200 B) on one device: the most is 100 bytes (100 B), on node n0");
  CHECK(infeasible(R"("cpus":8)") == "no node has 8 cpus: node n0 has 4");
  CHECK(infeasible(R"("gpus":1,"cpus":8)") == "no node with 1 device has 8 cpus: node n0 has 4");
  CHECK(infeasible(R"("resources":{"neuron_cores":3})") == "no node has 3 neuron_cores: node n0 has 2");
  CHECK(infeasible(R"("resources":{"tpus":1})") == "no node has 1 tpus: node n0 has 0");
  CHECK(infeasible(R"("host_memory_bytes":"3221225472")")
        == "no node has 3221225472 bytes (3 GiB) of host memory: node n0 has 2147483648 bytes (2 GiB)");
  CHECK(infeasible(R"("node":"n2")") == "no node is named \\\"n2\\\"; did you mean \\\"n0\\\" or \\\"n1\\\"?");
  CHECK(infeasible(R"("node":"n1","gpus":2)") == "no node of that name has 2 devices: node n1 has 1");
}

TEST_CASE("what waits says what no node has free and what the best has") {
  CHECK(pending(R"("gpus":2)") == "no node has 2 devices free: node n0 has 0");
  CHECK(pending(R"("gpus":0.5)") == "no node has 0.5 of a device free: the most on one device is 0.25, on node n1");
  CHECK(pending(R"("memory_bytes":"11")")
        == "no node has 11 bytes (11 B) on one device free: the most is 10 bytes (10 B), on node n1");
  CHECK(pending(R"("gpus":0.25,"memory_bytes":"11")")
        == "no node has 11 bytes (11 B) on one device free: the most is 10 bytes (10 B), on node n1");
  CHECK(pending(R"("cpus":1)") == "no node has 1 cpus free: node n0 has 0");
  CHECK(pending(R"("resources":{"neuron_cores":1})") == "no node has 1 neuron_cores free: node n0 has 0");
  CHECK(pending(R"("gpus":3,"wait_for_nodes":true)") == "it waits for new nodes: no node has 3 devices: node n0 has 2");
}

TEST_CASE("accelerators without fractions are refused in parts") {
  CHECK(reason_of(R"({"submit":{"id":"x","resources":{"neuron_cores":0.5}}})", "rejected", "x")
        == "neuron_cores is 0.5: they are granted in whole units only, 1 for example");
  CHECK(reason_of(R"({"submit_group":{"id":"g","bundles":[{"resources":{"neuron_cores":1.5}}]}})", "rejected", "g")
        == "bundle 0: neuron_cores is 1.5: they are granted in whole units only, 2 for example");
}

TEST_CASE("groups say what their bundles lack together") {
  const auto group = [](const std::string& event, const std::string& before, const std::string& rest) {
    return reason_of(before + R"({"submit_group":{"id":"g",)" + rest + "}}", event, "g");
  };
  CHECK(group("infeasible", "", R"("bundles":[{"gpus":1},{"gpus":3}])")
        == "bundle 1: no node has 3 devices: node n0 has 2");
  CHECK(
      group("infeasible", "", R"("strategy":"STRICT_PACK","bundles":[{"gpus":2},{"gpus":1}])")
      == "no node takes all 2 bundles together; they ask for 3 devices in all, the most on one node is 2, on node n0");
  CHECK(group("infeasible", "", R"("strategy":"STRICT_SPREAD","bundles":[{"cpus":1},{"cpus":1}])")
        == "the 2 bundles need a node each: the number of nodes is 2; 1 of them has room for one");
  CHECK(
      group("infeasible", "", R"("bundles":[{"gpus":2},{"gpus":2}])")
      == "the 2 bundles fit one by one but not together; they ask for 4 devices in all, the most on one node is 2, on "
         "node n0");
  CHECK(group("pending", R"({"submit":{"id":"a","gpus":1,"accelerator_type":"H100"}},)",
              R"("strategy":"STRICT_PACK","bundles":[{"gpus":1},{"gpus":1}])")
        == "no node takes all 2 bundles together with what is free now; they ask for 2 devices in all, the most on one "
           "node is 1, on node n0");
}

TEST_CASE("what draws from a group says what the bundle has, or that the group waits") {
  const std::string set_aside = R"({"submit_group":{"id":"g","bundles":[{"gpus":0.5},{"gpus":1}]}},)";
  CHECK(reason_of(set_aside + R"({"submit":{"id":"x","gpus":1,"group":"g","bundle":0}})", "infeasible", "x")
        == "bundle 0 does not have 1 device: node n0 has 0");
  CHECK(
      reason_of(set_aside + R"({"submit":{"id":"a","gpus":1,"group":"g"}},{"submit":{"id":"x","gpus":1,"group":"g"}})",
                "pending", "x")
          .find("bundle 0 does not have 1 device free: ")
      == 0);
  CHECK(reason_of(set_aside + R"({"submit":{"id":"x","gpus":1,"group":"g","bundle":2}})", "rejected", "x")
        == "bundle is 2: the placement group has bundles 0 to 1");
  CHECK(reason_of(R"({"submit":{"id":"a","gpus":2}},{"submit_group":{"id":"g","bundles":[{"gpus":2}]}},
                     {"submit":{"id":"x","gpus":1,"group":"g"}})",
                  "pending", "x")
        == R"(placement group 1 (\"g\") waits itself)");
}
