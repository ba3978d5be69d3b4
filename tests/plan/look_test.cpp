// What people look at: explanations, bars, pictures.
#include <gpuactors/plan/detail/bars.hpp>
#include <gpuactors/plan/detail/lane.hpp>
#include <gpuactors/plan/detail/svg.hpp>
#include <gpuactors/plan/detail/timeline.hpp>
#include <gpuactors/plan/plan.hpp>

#include <support/catch.hpp>

#include <algorithm>
#include <sstream>
#include <string>

using namespace gpuactors;
using namespace gpuactors::plan_detail;

namespace {

// Two nodes: one busy and unlabelled, one of another type.
const std::string nodes = R"("nodes":[
  {"name":"n0","cpus":4,"devices":[{"accelerator_type":"H100","count":2,"memory_bytes":"100"}]},
  {"name":"n1","labels":{"zone":"a"},"devices":[{"accelerator_type":"V100","count":1,"memory_bytes":"40"}]}])";

std::string run(const std::string& steps, PlanOptions options) {
  std::istringstream in("{" + nodes + R"(,"steps":[)" + steps + "]}");
  std::ostringstream out;
  options.events = false;
  const auto result = run_plan(in, out, options);
  return result ? out.str() : "error: " + result.error().message();
}

std::string explain(const std::string& steps, const std::string& id, bool json = false) {
  PlanOptions options;
  options.explain = id;
  options.json = json;
  return run(steps, options);
}

std::string picture(const std::string& steps) {
  std::ostringstream svg;
  PlanOptions options;
  options.svg = &svg;
  CHECK(run(steps, options).empty());
  return svg.str();
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size()))
    ++found;
  return found;
}

} // namespace

TEST_CASE("an explanation says what every node said when the request was submitted") {
  CHECK(explain(R"({"submit":{"id":"a","gpus":0.6}},{"submit":{"id":"b","gpus":0.5,"labels":{"zone":"b"}}})", "b")
        == R"("b" asks for 0.5 of a device
step 1: infeasible: no node has the labels: on node n1 label zone is "a", asked: b

As step 1 found the nodes:
  n0  never      asked label zone (b): there is no label zone
  n1  never      asked label zone (b): label zone is "a"
)");
  CHECK(explain(R"({"submit":{"id":"a","gpus":2}},{"submit":{"id":"b","gpus":0.25,"cpus":1}},
                   {"submit":{"id":"c","memory_bytes":"30"}}, {"release":{"id":"c"}})",
                "c")
        == R"("c" asks for 30 bytes (30 B) of a device
step 2: granted: node n1, device 0 (0.75 of it)
step 3: released

As step 2 found the nodes:
  n0  busy       asked 30 bytes (30 B) on one device free: the most is 0 bytes (0 B)
  n1  fits       granted here
)");
}

TEST_CASE("an explanation of what still waits also says how it is at the end") {
  const auto text = explain(R"({"submit":{"id":"a","gpus":1,"accelerator_type":"H100"}},{"submit":{"id":"b","gpus":2}},
      {"submit":{"id":"c","gpus":1,"accelerator_type":"H100"}},{"drain_node":{"name":"n0"}})",
                            "b");
  CHECK(text == R"("b" asks for 2 devices
step 1: pending: no node has 2 devices free: node n0 has 1

As step 1 found the nodes:
  n0  busy       asked 2 devices free: has 1
  n1  never      asked 2 devices: has 1

At the end, where it still waits:
  n0  draining   takes no new leases
  n1  never      asked 2 devices: has 1
)");
}

TEST_CASE("an explanation names the request that a place is held back for") {
  const auto text = explain(R"({"submit":{"id":"a","gpus":1,"accelerator_type":"H100"}},
      {"submit":{"id":"big","gpus":2}},{"advance":{"seconds":1}},
      {"submit":{"id":"b","gpus":1,"accelerator_type":"H100"}})",
                            "b");
  CHECK(text.find("n0  held back  what is free is held back for request 2 (\"big\"), which has waited longer: on node "
                  "n0, for at most 30 s\n")
        != std::string::npos);
}

TEST_CASE("an explanation of a waiting group does not say that a place is held back for the group itself") {
  const auto text = explain(R"({"submit":{"id":"a","gpus":1,"accelerator_type":"H100"}},
      {"submit_group":{"id":"g","bundles":[{"gpus":1,"accelerator_type":"H100"},{"gpus":1,"accelerator_type":"H100"}]}},
      {"advance":{"seconds":1}})",
                            "g");
  const auto end = text.substr(text.find("At the end"));
  CHECK(end.find("n0, for bundle 0  fits") != std::string::npos);
  CHECK(end.find("held back") == std::string::npos);
}

TEST_CASE("placement groups and what is in them are explained too") {
  const std::string steps = R"({"submit_group":{"id":"g","bundles":[{"gpus":2},{"gpus":0.5}]}},
      {"submit":{"id":"in","gpus":0.75,"group":"g","bundle":1}})";
  const auto group = explain(steps, "g");
  CHECK(group.find("\"g\" asks for 2 bundles together: bundle 0: 2 devices; bundle 1: 0.5 of a device\n") == 0);
  CHECK(group.find("step 0: granted: bundle 0 on node n0, device 0 (1 of it) and device 1 (1 of it), bundle 1 on node "
                   "n1, device 0 (0.5 of it)\n")
        != std::string::npos);
  CHECK(group.find("  n1, for bundle 0  never      asked 2 devices: has 1\n") != std::string::npos);
  CHECK(explain(steps, "in").find("  n1, bundle 1  never      asked 0.75 of a device: the most on one device is 0.5\n")
        != std::string::npos);
}

TEST_CASE("an explanation of a group without bundles says why it was refused") {
  CHECK_THAT(explain(R"({"submit_group":{"id":"g","bundles":[]}})", "g"),
             Catch::Contains("step 0: rejected") && Catch::Contains("at least one bundle"));
}

TEST_CASE("an explanation as JSON is one object") {
  CHECK(explain(R"({"submit":{"id":"a","gpus":2}},{"submit":{"id":"b","gpus":2}})", "b", true)
        == R"({"at_the_end":[{"node":"n0","reason":"asked 2 devices free: has 0","verdict":"busy"},)"
           R"({"node":"n1","reason":"asked 2 devices: has 1","verdict":"never"}],)"
           R"("events":[{"event":"pending","reason":"no node has 2 devices free: node n1 has 1","step":1}],"id":"b",)"
           R"("when_submitted":[{"node":"n0","reason":"asked 2 devices free: has 0","verdict":"busy"},)"
           R"({"node":"n1","reason":"asked 2 devices: has 1","verdict":"never"}]})"
           "\n");
}

TEST_CASE("an id that is never submitted cannot be explained, and the nearest are named") {
  CHECK(explain(R"({"submit":{"id":"job1"}},{"submit":{"id":"x"}})", "job2")
        == "error: no step has submitted \"job2\", which is to be explained; did you mean \"job1\"?");
  // What the rules refuse was submitted.
  CHECK(explain(R"({"submit":{"id":"a","gpus":1.5}})", "a").find("step 0: rejected: gpus is 1.5") == 0);
}

TEST_CASE("bars show what of each device is held and by whom") {
  PlanOptions options;
  options.table = true;
  CHECK(run(R"({"submit":{"id":"a","gpus":0.5}},{"submit":{"id":"b","gpus":0.25}},
               {"submit":{"id":"c","gpus":1}},{"fail_device":{"node":"n0","index":1}},
               {"submit":{"id":"d","gpus":1,"accelerator_type":"H100"}})",
            options)
        == "n0 0  H100  [████████████████████]  1 of 1     100 B of 100 B  c\n"
           "n0 1  H100  [xxxxxxxxxxxxxxxxxxxx]                             failed\n"
           "n1 0  V100  [██████████▓▓▓▓▓·····]  0.75 of 1  30 B of 40 B    a, b\n"
           "3 devices on 2 nodes; 1 waits: d\n");
  CHECK(draw_bars({{"n0 0", "H100", {0.5, 0.25}, "0.75 of 1", "30 B of 40 B", "a, b", false},
                   {"n10 0", "", {}, "", "", "failed", true}},
                  8)
        == "n0 0   H100  [████▓▓··]  0.75 of 1  30 B of 40 B  a, b\n"
           "n10 0        [xxxxxxxx]                           failed\n");
}

TEST_CASE("bars stay few however many devices there are") {
  for (const int node_count : {20, 500}) {
    std::string scenario = R"({"steps":[{"submit":{"id":"a","gpus":4}}],"nodes":[)";
    for (int i = 0; i < node_count; ++i)
      scenario += std::string{i == 0 ? "" : ","} + R"({"name":"n)" + std::to_string(1000 + i)
                  + R"(","devices":[{"count":8,"memory_bytes":"100"}]})";
    std::istringstream in(scenario + "]}");
    std::ostringstream out;
    PlanOptions options;
    options.events = false;
    options.table = true;
    REQUIRE(run_plan(in, out, options));
    CHECK(count(out.str(), "\n") <= BarWriter::most_lines + 1);
    CHECK(count(out.str(), "\n") == (node_count == 20 ? 21 : 64));
    CHECK(out.str().find(node_count == 20 ? "n1000  [██████████··········]  4 of 8" : "n1000 ... n1007  [█") == 0);
  }
}

TEST_CASE("lanes give the lowest gap that fits, else several, and merge what comes back") {
  Lane lane{{{0, 10'000}}};
  const auto a = lane.take(2500);
  const auto b = lane.take(5000);
  CHECK(a == std::vector<Segment>{{0, 2500}});
  CHECK(b == std::vector<Segment>{{2500, 7500}});
  lane.give_back(a);
  CHECK(lane.take(5000) == std::vector<Segment>{{0, 2500}, {7500, 10'000}});
  CHECK(lane.take(1).empty());
  lane.give_back(b);
  lane.give_back(a);
  CHECK(lane.free() == std::vector<Segment>{{0, 7500}});
}

TEST_CASE("a picture has a rectangle for each device of a lease, with its name and when") {
  const auto svg = picture(R"({"submit":{"id":"<a&b>","gpus":2}},{"submit":{"id":"q\"'","gpus":0.25}},
      {"release":{"id":"<a&b>"}},{"advance":{"seconds":3}},{"fail_device":{"node":"n1","index":0}})");
  CHECK(svg.find("<svg xmlns=\"http://www.w3.org/2000/svg\"") == 0);
  CHECK(svg.find("</svg>\n") == svg.size() - 7);
  CHECK(count(svg, "class=\"lease\"") == 3);
  CHECK(svg.find("<title>&lt;a&amp;b&gt;: 1 of device 0 of node n0, 100 B, steps 0 to 2</title>") != std::string::npos);
  CHECK(svg.find("<title>q&quot;&apos;: 0.25 of device 0 of node n1, 10 B, steps 1 to 4</title>") != std::string::npos);
  CHECK(svg.find(">failed</text>") != std::string::npos);
  CHECK(svg.find(">3 s</text>") != std::string::npos);
}

TEST_CASE("a picture draws what is in a bundle inside the bundle") {
  const auto svg = picture(R"({"submit_group":{"id":"g","bundles":[{"gpus":0.5}]}},
      {"submit":{"id":"in","gpus":0.25,"group":"g"}},{"submit":{"id":"beside","gpus":0.5}},{"release_group":{"id":"g"}},
      {"submit":{"id":"after","gpus":0.5}})");
  CHECK(count(svg, "class=\"bundle\"") == 1);
  CHECK(svg.find("<title>g: 0.5 of device 0 of node n1, 20 B, steps 0 to 3</title>") != std::string::npos);
  CHECK(svg.find("<title>in: 0.25 of device 0 of node n1, 10 B, steps 1 to 3</title>") != std::string::npos);
  CHECK(svg.find("<title>after: 0.5 of device 0 of node n1, 20 B, steps 4 to the end</title>") != std::string::npos);
}

TEST_CASE("a picture shows which bundles a group keeps, and where lost ones are placed anew") {
  // Bundle 0 is on n1, which has the fewest idle devices, bundle 1 on n0.
  const std::string group =
      R"({"submit_group":{"id":"g","strategy":"STRICT_SPREAD","bundles":[{"gpus":1},{"gpus":1}]}},)";
  const auto torn = picture(group + R"({"remove_node":{"name":"n1"}},{"advance":{"seconds":1}})");
  CHECK(count(torn, "class=\"bundle\"") == 2);
  CHECK(count(torn, ", steps 0 to 1</title>") == 1);
  CHECK(count(torn, ", steps 0 to the end</title>") == 1);
  const std::string shrinking =
      R"({"submit_group":{"id":"g","strategy":"SPREAD","shrinks":true,"bundles":[{"gpus":1},{"gpus":1}]}},)";
  const auto shrunk = picture(shrinking + R"({"submit":{"id":"r","gpus":1,"group":"g","bundle":1}},
      {"release":{"id":"r"}},{"remove_node":{"name":"n1"}},{"advance":{"seconds":1}})");
  CHECK(count(shrunk, ", steps 0 to 2</title>") == 1);
  CHECK(count(shrunk, ", steps 0 to 3</title>") == 1);
  const auto repaired = picture(group + R"({"add_node":{"name":"n2","devices":[{"memory_bytes":"40"}]}},
      {"remove_node":{"name":"n1"}},{"advance":{"seconds":1}})");
  CHECK(count(repaired, "class=\"bundle\"") == 3);
  CHECK(count(repaired, ", steps 0 to 2</title>") == 1);
  CHECK(repaired.find("<title>g: 1 of device 0 of node n2, 40 B, steps 2 to the end</title>") != std::string::npos);
  CHECK(count(repaired, ", steps 0 to the end</title>") == 1);
}

TEST_CASE("a picture shows when a node was away, and that it has come back as a new one") {
  const std::string back = R"({"add_node":{"name":"n1","devices":[{"accelerator_type":"V100","memory_bytes":"40"}]}})";
  const auto svg = picture(R"({"drain_node":{"name":"n1"}},{"drain_node":{"name":"n1"}},
      {"fail_device":{"node":"n1","index":0}},{"remove_node":{"name":"n1"}},)"
                           + back + R"(,{"submit":{"id":"b","gpus":1,"accelerator_type":"V100"}})");
  const auto title = [&svg](const std::string& text) { return count(svg, "<title>" + text + "</title>"); };
  CHECK(title("n1 0: draining, steps 0 to 3") == 1);
  CHECK(title("n1 0: failed, steps 2 to 3") == 1);
  CHECK(title("n1 0: removed, steps 3 to 4") == 1);
  CHECK(title("b: 1 of device 0 of node n1, 40 B, steps 5 to the end") == 1);
  CHECK(count(svg, "n1 0: ") == 3);
}

TEST_CASE("a picture shows a device as gone that a node has come back without") {
  const auto svg = picture(R"({"remove_node":{"name":"n0"}},
      {"add_node":{"name":"n0","devices":[{"accelerator_type":"H100","memory_bytes":"100"}]}},
      {"drain_node":{"name":"n0"}},{"undrain_node":{"name":"n0"}},{"remove_node":{"name":"n0"}})");
  const auto title = [&svg](const std::string& text) { return count(svg, "<title>" + text + "</title>"); };
  CHECK(title("n0 0: removed, steps 0 to 1") == 1);
  CHECK(title("n0 0: draining, steps 2 to 3") == 1);
  CHECK(title("n0 0: removed, steps 4 to the end") == 1);
  CHECK(title("n0 1: removed, steps 0 to the end") == 1);
  CHECK(count(svg, "n0 1: ") == 1);
}

TEST_CASE("a picture of too much says what it leaves out") {
  std::string scenario = R"({"nodes":[{"name":"n0","devices":[{"count":300,"memory_bytes":"100"}]}],"steps":[)";
  for (int i = 0; i < 21'000; ++i)
    scenario += std::string{i == 0 ? "" : ","} + R"({"submit":{"id":")" + std::to_string(i)
                + R"(","gpus":0.01}},{"release":{"id":")" + std::to_string(i) + R"("}})";
  std::istringstream in(scenario + "]}");
  std::ostringstream out;
  std::ostringstream svg;
  PlanOptions options;
  options.events = false;
  options.svg = &svg;
  REQUIRE(run_plan(in, out, options));
  CHECK(count(svg.str(), "class=\"lease\"") == TimelineRecorder::most_blocks);
  CHECK(svg.str().find("Shows 256 of 300 devices: a picture has no more than 256 lanes.") != std::string::npos);
  CHECK(svg.str().find("Ends before step 40000: a picture has no more than 20000 rectangles.") != std::string::npos);
}

TEST_CASE("text is escaped for XML, and what XML cannot hold is replaced") {
  CHECK(escape_xml("a<b>&\"'") == "a&lt;b&gt;&amp;&quot;&apos;");
  CHECK(escape_xml(std::string_view{"\x01\n\xC3\xA9", 4}) == "\xEF\xBF\xBD\n\xC3\xA9");
  CHECK(escape_xml("a\xEF\xBF\xBF\xEF\xBF\xBE\xEF\xBF\xBDz") == "a\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBDz");
}

TEST_CASE("an explanation says which nodes do not have the type that a request is for") {
  const auto text = explain(R"({"add_node":{"name":"n2","cpus":1,"types":["task a"]}},
      {"add_node":{"name":"n3","cpus":1,"types":["task a","task b"]}},{"drain_node":{"name":"n0"}},
      {"drain_node":{"name":"n1"}},{"submit":{"id":"a","cpus":1,"type":"task b"}},
      {"submit":{"id":"b","cpus":1,"type":"task b"}})",
                            "b");
  CHECK(text == R"("b" asks for 1 cpus, on a node with the type "task b"
step 5: pending: no node has 1 cpus free: node n3 has 0; 1 of 4 nodes does not have the type "task b"

As step 5 found the nodes:
  n0  draining   takes no new leases
  n1  never      asked 1 cpus: has 0
  n2  never      does not have the type "task b"
  n3  busy       asked 1 cpus free: has 0

At the end, where it still waits:
  n0  draining   takes no new leases
  n1  never      asked 1 cpus: has 0
  n2  never      does not have the type "task b"
  n3  busy       asked 1 cpus free: has 0
)");
}
