// The page of the dashboard: what is text stays text, it is bounded, and it says when the broker does not answer.
#include "dashboard_state.hpp"

#include <apps/gpuactors/dashboard/html.hpp>
#include <apps/gpuactors/dashboard/log_pages.hpp>
#include <apps/gpuactors/dashboard/page.hpp>
#include <apps/gpuactors/words.hpp>
#include <support/catch.hpp>

#include <fmt/format.h>

#include <string>

using namespace gpuactors;
using namespace gpuactors::cli::dashboard;
using namespace dashboard_test;
using cli::Scrape;

namespace {

/// What command lines need to reach the cluster.
const std::string connection = "--broker 10.0.0.1:7711 --certs '/my certs'";

Look look_of(const v1::ClusterState& state, const std::string& arguments = connection) {
  Watch watch;
  watch.take(moment_at(std::chrono::seconds{100}), state);
  return look_at({state, watch, moment_at(std::chrono::seconds{100}), "10.0.0.1:7711", arguments});
}

Scrape<Look> answered(const v1::ClusterState& state) {
  Scrape<Look> scrape;
  scrape.value = std::make_shared<const Look>(look_of(state));
  return scrape;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (auto place = text.find(part); place != std::string::npos; place = text.find(part, place + 1))
    ++count;
  return count;
}

} // namespace

TEST_CASE("text and values are escaped, valid and bounded") {
  Html html;
  html.leaf("p", {{"title", evil}}, evil);
  CHECK(html.str()
        == "<p title=\"&quot;&gt;&lt;script&gt;alert(1)&lt;/script&gt;&lt;img src=x onerror='alert(2)'&gt;&amp;lt;\">"
           "&quot;&gt;&lt;script&gt;alert(1)&lt;/script&gt;&lt;img src=x onerror='alert(2)'&gt;&amp;lt;</p>\n");
  Html bytes;
  bytes.text(std::string_view{"a\xFF\0\x1B[31mb\xC3\xA4", 11});
  CHECK(bytes.str() == "a\xEF\xBF\xBD\xEF\xBF\xBD[31mb\xC3\xA4");
  Html much;
  much.text(std::string(100'000, 'x'));
  CHECK(much.str().size() < Html::longest_text + 8);
  CHECK(clipped("abc\xC3\xA4", 4) == "abc\xE2\x80\xA6"); // no half of a character
  CHECK(clipped("abc", 3) == "abc");
}

TEST_CASE("elements are closed by their scopes, and pieces are joined as they are") {
  Html piece;
  piece.leaf("b", {}, "<");
  Html html;
  {
    const auto list = html.element("ul");
    const auto item = html.element("li", {{"class", "x"}});
    html.add(piece);
    html.empty("br", {});
  }
  CHECK(html.str() == "<ul><li class=\"x\"><b>&lt;</b><br/></li>\n</ul>");
}

TEST_CASE("the reader of these tests finds what is not well-formed") {
  CHECK(read("<p class=\"a>b\">x</p>").problem.empty());
  CHECK_FALSE(read("<p><b></p></b>").problem.empty());
  CHECK_FALSE(read("<p>").problem.empty());
  CHECK_FALSE(read("<p class=x></p>").problem.empty());
  CHECK(read("<p onclick=\"x\"/>").attributes == std::vector<std::string>{"onclick"});
}

TEST_CASE("no text of a state becomes anything else, whichever of its texts it is") {
  v1::ClusterState state;
  fill(state, evil);
  auto scrape = answered(state);
  scrape.problem = evil;
  const auto page = whole_page(scrape, evil).str();
  const auto reading = read(page);
  CHECK(reading.problem.empty());
  CHECK_FALSE(contains(page, "<script>"));
  CHECK_FALSE(contains(page, "<img"));
  CHECK(count_of(page, "<script") == 1); // its own
  for (const auto& name : reading.attributes) {
    CHECK(name != "style");
    CHECK(name.substr(0, 2) != "on");
  }
  for (const auto& name : reading.elements)
    CHECK(name != "style");
  CHECK(count_of(page, "&lt;script&gt;") > 50);
}

TEST_CASE("the releases that differ from the broker's are named once each, in their order") {
  v1::ClusterState state;
  state.set_release("0.2.0");
  add_node(state, "n0").set_release("0.2.0");
  state.add_clients(); // of a release that did not say its number yet
  CHECK(cli::other_releases(state, "; ").empty());
  add_node(state, "n1").set_release("0.1.1");
  add_node(state, "n2").set_release("0.1.1");
  state.add_clients()->set_release("0.1.0");
  CHECK(cli::other_releases(state, "; ") == "; others run 0.1.0, 0.1.1");
  CHECK(contains(whole_page(answered(state), "10.0.0.1:7711").str(), ", others run 0.1.0, 0.1.1. "));
}

TEST_CASE("each section has its own part and says how the command line shows the same") {
  v1::ClusterState state;
  add_device(state, add_node(state, "n0").node().name(), 0);
  const auto page = whole_page(answered(state), "10.0.0.1:7711").str();
  CHECK(read(page).problem.empty());
  for (const std::string id : {"devices", "queue", "actors", "calls", "groups", "quotas", "events"}) {
    CHECK(contains(page, "<details id=\"" + id + "\" open=\"\">"));
    CHECK(count_of(page, "data-part=\"" + id + "\"") == 1);
    CHECK(contains(page, "<code>gpuactors " + id + " --broker 10.0.0.1:7711 --certs '/my certs'</code>"));
  }
  CHECK(contains(page,
                 "1 node with 1 device: 0 of 1 granted, 0 B of 1 GiB of their memory. Nothing waits for resources. "
                 "0 actors."));
  CHECK(contains(page, "✓ No problems."));
}

TEST_CASE("every command on the page has what it needs to reach the cluster, and is never cut short") {
  v1::ClusterState state;
  fill(state, "x");
  for (std::uint64_t i = 0; i <= most_actors; ++i)
    add_actor(state, 100 + i, "a");
  const auto arguments = "--broker b:1 --certs /" + std::string(1'000, 'd');
  const auto page = look_of(state, arguments).sections.str();
  CHECK(read(page).problem.empty());
  const auto commands = count_of(page, "<code>gpuactors ");
  CHECK(commands > 12); // of sections, of problems, and of what is left out
  CHECK(count_of(page, " " + arguments + "</code>") == commands);
}

TEST_CASE("where there is no node, the page has the command that starts one") {
  CHECK(contains(look_of({}).sections.str(), "<code>gpuactors node --broker 10.0.0.1:7711 --certs '/my certs'</code>"));
  v1::ClusterState state;
  add_node(state, "n0");
  CHECK_FALSE(contains(look_of(state).sections.str(), "gpuactors node "));
}

TEST_CASE("what is not known is not shown") {
  v1::ClusterState state;
  add_node(state, "n0");
  auto& device = add_device(state, "n0", 0);
  CHECK_FALSE(contains(look_of(state).sections.str(), "busy"));
  device.mutable_use()->set_percent(40);
  device.mutable_use()->set_memory_bytes(gib / 2);
  CHECK(contains(look_of(state).sections.str(), "0 of 1, 0 B of 1 GiB, busy 40 %, 512 MiB in use"));
  device.mutable_use()->set_percent(-1);
  CHECK(contains(look_of(state).sections.str(), "0 of 1, 0 B of 1 GiB, 512 MiB in use"));
  CHECK(contains(look_of({}).sections.str(), "No node has joined yet"));
}

TEST_CASE("what is not well is marked with words and not by colour alone") {
  v1::ClusterState state;
  add_node(state, "n0").set_state("draining");
  auto& device = add_device(state, "n0", 3);
  device.set_state("failed");
  device.set_reason("XID 79");
  add_actor(state, 5, "c0").set_state("restarting");
  const auto look = look_of(state);
  CHECK(contains(look.sections.str(), "⚠ draining"));
  CHECK(contains(look.sections.str(), "⚠ failed XID 79"));
  CHECK(contains(look.sections.str(), "⚠ restarting"));
  CHECK(look.title == "(3) problems - gpuactors");
}

TEST_CASE("actors with a place have a link to what they printed, by their number") {
  v1::ClusterState state;
  add_actor(state, 5, "c0").set_name_space("lab");
  add_actor(state, 6, "");
  add_actor(state, 7, "waiting").mutable_lease()->clear_node();
  const auto look = look_of(state);
  CHECK(contains(look.sections.str(), "href=\"/logs/5\""));
  CHECK(contains(look.sections.str(), "href=\"/logs/6\""));
  CHECK(count_of(look.sections.str(), "href=") == 2);
  REQUIRE(look.actors.size() == 3);
  CHECK(look.actors.at(5).name == "lab/c0");
  CHECK(look.actors.at(5).handle.id() == 5);
  CHECK(look.actors.at(6).name == "counter 6");
}

TEST_CASE("actors that have ended have a link to what they printed, on the node that they were on last") {
  v1::ClusterState state;
  add_actor(state, 5, "c0");
  auto& ended = *state.add_ended()->mutable_actor();
  ended.set_id(4);
  ended.set_name("c0");
  ended.mutable_lease()->set_node("n1");
  state.add_ended()->mutable_actor()->set_id(3); // has never been anywhere
  const auto look = look_of(state);
  CHECK(contains(look.sections.str(), "href=\"/logs/4\""));
  CHECK(count_of(look.sections.str(), "href=") == 2);
  REQUIRE(look.actors.size() == 2);
  CHECK(look.actors.at(4).ended_on == "n1");
  CHECK(look.actors.at(4).handle.id() == 4);
  CHECK(look.actors.at(5).ended_on.empty());
}

TEST_CASE("when the broker does not answer, the page says since when and why, above what it said last") {
  Scrape<Look> scrape;
  scrape.problem = "no answer within 3 s";
  scrape.failing_since = std::chrono::system_clock::time_point{} + std::chrono::hours{24};
  const auto never_answered = main_part(scrape, "b:1").str();
  CHECK(read(never_answered).problem.empty());
  CHECK(contains(never_answered, "<main class=\"stale\" data-title=\"no answer - gpuactors\">"));
  CHECK(contains(never_answered,
                 "The broker at b:1 has not answered since 1970-01-02 00:00:00.000 UTC: no answer within "
                 "3 s. It is asked again and again."));
  v1::ClusterState state;
  add_node(state, "last-known");
  scrape.value = std::make_shared<const Look>(look_of(state));
  const auto stale = main_part(scrape, "b:1").str();
  CHECK(contains(stale, "class=\"stale\""));
  CHECK(contains(stale, "Below is what it said last"));
  CHECK(contains(stale, "last-known"));
  const auto fresh = main_part(answered(state), "b:1").str();
  CHECK(contains(fresh, "class=\"fresh\""));
  CHECK_FALSE(contains(fresh, "has not answered"));
}

TEST_CASE("the page of a large cluster is bounded and says what it leaves out") {
  v1::ClusterState state;
  std::uint64_t id = 0;
  const std::string name(1'000, '<');
  for (int n = 0; n < 400; ++n) {
    auto& node = add_node(state, fmt::format("node-{}", n));
    (*node.mutable_node()->mutable_labels())["zone"] = name;
    for (int d = 0; d < 8; ++d) {
      auto& device = add_device(state, node.node().name(), d);
      for (int i = 0; i < 20; ++i) {
        add_lease(state, ++id, name, device, 500);
        take(device, 500);
      }
    }
  }
  for (int i = 0; i < 5'000; ++i) {
    auto& actor = add_actor(state, static_cast<std::uint64_t>(i) + 1, name);
    count(*actor.add_methods(), 10, 1);
    auto& waiting = *state.add_queue();
    waiting.set_name(name);
    waiting.set_reason(name);
    auto& group = *state.add_groups();
    for (int k = 0; k < 100; ++k)
      group.add_bundles()->set_node(name);
    state.add_quotas()->set_owner(name);
    auto& ended = *state.add_ended();
    ended.set_reason(name);
    ended.set_error(static_cast<std::uint32_t>(Errc::worker_died));
    ended.set_unix_ns(99'000'000'000);
    state.add_events()->set_sequence(static_cast<std::uint64_t>(i) + 1);
  }
  const auto page = look_of(state).sections.str();
  CHECK(read(page).problem.empty());
  // Names as long and as bad as can be: each character takes four.
  CHECK(page.size() < 4'000'000);
  CHECK(count_of(page, "class=\"device\"") == most_bars);
  CHECK(contains(page, "128 more nodes: "));
  CHECK(contains(page, "4900 more: <code>gpuactors actors --broker"));
  CHECK(contains(page, "4950 more: <code>gpuactors queue --broker"));
  CHECK(contains(page, "4950 more: <code>gpuactors calls --broker"));
  CHECK(contains(page, "and 4980 more"));
}

TEST_CASE("a cluster of 200 nodes and 2000 actors fits in 400 KB") {
  v1::ClusterState state;
  std::uint64_t id = 0;
  for (int n = 0; n < 200; ++n) {
    const auto name = add_node(state, fmt::format("node-{}", n)).node().name();
    for (int d = 0; d < 8; ++d) {
      auto& device = add_device(state, name, d);
      for (int i = 0; i < 2; ++i) {
        add_lease(state, ++id, fmt::format("trainer-{}", id), device, 4'000);
        take(device, 4'000);
      }
    }
  }
  for (std::uint64_t i = 1; i <= 2'000; ++i) {
    auto& actor = add_actor(state, i, fmt::format("trainer-{}", i));
    *actor.mutable_lease() = state.leases(static_cast<int>(i));
    count(*actor.add_methods(), i, 0);
    state.add_queue()->set_reason("no node has 3 devices free: node gpu-1 has 0");
  }
  const auto page = look_of(state).sections.str();
  CHECK(read(page).problem.empty());
  CHECK(page.size() < 400'000);
  // Every device is there, as a bar or in its node's row.
  CHECK(count_of(page, "class=\"taken\"") + count_of(page, "class=\"device\"") == 1'600);
}

TEST_CASE("actors that are not well are shown first, so that none is left out for one that is") {
  v1::ClusterState state;
  for (std::uint64_t i = 1; i <= most_actors + 5; ++i)
    add_actor(state, i, fmt::format("a{}", i));
  state.mutable_actors(most_actors + 4)->set_state("restarting");
  Html html;
  const Watch watch;
  write_actors(html, {state, watch, moment_at(std::chrono::seconds{1}), "b:1", "--broker b:1"});
  CHECK(contains(html.str(), "⚠ restarting"));
  CHECK(contains(html.str(), "5 more: "));
}

TEST_CASE("a line of a log is plain text of bounded length") {
  CHECK(plain_line("a\tb\x1B[31mc\r") == "a\tb?[31mc?");
  CHECK(plain_line(std::string(10'000, 'x')).size() < LogPages::longest_line + 8);
  CHECK(plain_line("<b>") == "<b>");
}
