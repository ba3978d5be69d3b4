// The tables of the page: the queue, actors, calls, groups, quotas, actors that have ended, events.
#include "sections.hpp"
#include "table.hpp"

#include <gpuactors/base/units.hpp>

#include <apps/draw/svg.hpp>
#include <apps/gpuactors/call_times.hpp>
#include <apps/gpuactors/utc.hpp>
#include <apps/gpuactors/words.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace gpuactors::cli::dashboard {

namespace {

/// How many of an actor's own numbers are shown.
constexpr int most_metrics = 4;

constexpr std::uint64_t nearly_all = 99;

/// Returns a cell for a state: one that is not well has a mark, and more than a colour.
Cell state_cell(const std::string& state, std::string_view well) {
  return state == well ? Cell{state} : Cell{"⚠ " + state, "bad"};
}

/// Returns a cell for a time, which stays on one line.
Cell time_cell(std::int64_t unix_ns) {
  return {utc_for_people(from_unix_ns(unix_ns)), "time"};
}

/// Returns a cell for an actor's name, which leads to what it printed if it has been somewhere.
Cell name_cell(const v1::ActorInfo& actor) {
  Cell name{name_or_number(actor)};
  if (!actor.lease().node().empty()) {
    name.href = fmt::format("/logs/{}", actor.id());
    name.hint = "What it has printed last";
  }
  return name;
}

/// Returns a cell for a count of what should not happen.
Cell failures_cell(std::uint64_t count) {
  return count == 0 ? Cell{"0"} : Cell{fmt::format("⚠ {}", count), "bad"};
}

/// Returns "loss=0.5, steps=40": the gauges and counters that the actor publishes.
std::string published_in_words(const v1::ActorInfo& actor) {
  std::string words;
  int shown = 0;
  for (const auto& metric : actor.metrics()) {
    if (metric.kind() == v1::Metric::HISTOGRAM)
      continue;
    if (shown++ == most_metrics)
      return words + ", …";
    words += fmt::format("{}{}={:.6g}", words.empty() ? "" : ", ", metric.name(), metric.value());
  }
  return words;
}

void write_actor(HtmlTable& table, const v1::ActorInfo& actor) {
  const auto pid = pid_of(actor);
  table.row({name_cell(actor), actor.type(), state_cell(actor.state(), "alive"), actor.lease().node(),
             pid != 0 ? std::to_string(pid) : "", restarts_in_words(actor),
             actor.has_lease() ? devices_in_words(actor.lease()) : "",
             pid != 0 ? format_bytes(actor.memory_used_bytes()) : "", std::to_string(actor.calls()),
             published_in_words(actor), actor.owner()});
}

/// Writes how much of a quota is used: a bar, and the same in its hint.
std::string used_in_words(const v1::QuotaState& quota) {
  constexpr int steps = 20;
  if (!quota.has_gpu_units() || quota.owner() == each_client)
    return {};
  const auto part =
      quota.gpu_units() > 0 ? static_cast<double>(quota.used_units()) / static_cast<double>(quota.gpu_units()) : 1.0;
  const auto full = static_cast<int>(std::lround(std::clamp(part, 0.0, 1.0) * steps));
  std::string bar;
  for (int i = 0; i < steps; ++i)
    bar += i < full ? "█" : "░";
  constexpr double hundred = 100;
  return fmt::format("{} {:.0f} %", bar, part * hundred);
}

} // namespace

void write_queue(Html& html, const Scene& scene) {
  const auto& queue = scene.state.queue();
  const auto summary = queue.empty() ? std::string{"nothing waits"} : fmt::format("{} wait", queue.size());
  write_section(html, {"queue", "Queue", summary, "queue"}, scene.connection, [&] {
    HtmlTable table{html, {"Name", ">Id", ">Priority", "Why it waits"}, most_rows, "queue", scene.connection};
    for (const auto& waiting : queue)
      if (!table.has_room())
        table.skip();
      else
        table.row({waiting.name(), waiting.id() != 0 ? std::to_string(waiting.id()) : "group",
                   std::to_string(waiting.priority()), waiting.reason()});
  });
}

void write_actors(Html& html, const Scene& scene) {
  std::vector<const v1::ActorInfo*> actors;
  for (const auto& actor : scene.state.actors())
    actors.push_back(&actor);
  // Those that are not well first: they must not be among the ones that are left out.
  std::stable_partition(actors.begin(), actors.end(), [](const auto* actor) { return actor->state() != "alive"; });
  write_section(html, {"actors", "Actors", std::to_string(actors.size()), "actors"}, scene.connection, [&] {
    HtmlTable table{html,
                    {"Name", "Type", "State", "Node", ">Pid", ">Restarts", "Devices (share, memory)", ">In use",
                     ">Calls", "Publishes", "Owner"},
                    most_actors,
                    "actors",
                    scene.connection};
    for (const auto* actor : actors)
      if (!table.has_room())
        table.skip();
      else
        write_actor(table, *actor);
  });
}

void write_calls(Html& html, const Scene& scene) {
  const auto rows = call_rows(scene.state);
  std::vector<std::pair<std::uint64_t, const CallRow*>> order;
  order.reserve(rows.size());
  for (const auto& row : rows)
    order.emplace_back(how_many(took(*row.stats)), &row);
  std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  write_section(html, {"calls", "Calls and tasks", fmt::format("{} methods and tasks", order.size()), "calls"},
                scene.connection, [&] {
                  HtmlTable table{html,
                                  {"Actor", "Method or task", "Node", ">Ran", ">Now", ">Failed", ">Late", ">Mean",
                                   ">99 of 100 took", ">Mean wait"},
                                  most_rows,
                                  "calls",
                                  scene.connection};
                  for (const auto& [ran, row] : order) {
                    if (!table.has_room()) {
                      table.skip();
                      continue;
                    }
                    const auto rate = scene.watch.calls().rate(*row);
                    table.row({row->actor != nullptr ? name_or_number(*row->actor) : "", row->stats->name(), row->node,
                               std::to_string(ran), rate ? draw::short_number(*rate) + "/s" : "",
                               failures_cell(row->stats->failed()), failures_cell(row->stats->late()),
                               mean_in_words(took(*row->stats)), bound_in_words(took(*row->stats), nearly_all),
                               mean_in_words(waited(*row->stats))});
                  }
                });
}

void write_groups(Html& html, const Scene& scene) {
  const auto& groups = scene.state.groups();
  write_section(html, {"groups", "Placement groups", std::to_string(groups.size()), "groups"}, scene.connection, [&] {
    HtmlTable table{
        html, {"Name", ">Id", "State", "Owner", ">Bundles", "Places"}, most_rows, "groups", scene.connection};
    for (const auto& group : groups) {
      // The places of a group of many bundles do not fit: the first are enough to know it by.
      constexpr std::size_t most_bundles = 8;
      std::string places;
      for (int i = 0; i < group.bundles_size() && table.has_room(); ++i)
        if (static_cast<std::size_t>(i) == most_bundles) {
          places += "; …";
          break;
        } else {
          places += fmt::format("{}{}", i == 0 ? "" : "; ", bundle_in_words(group.bundles(i)));
        }
      table.row({group.name(), std::to_string(group.id()), state_cell(group.state(), "placed"), group.owner(),
                 std::to_string(group.bundles_size()), places});
    }
  });
}

void write_quotas(Html& html, const Scene& scene) {
  const auto& quotas = scene.state.quotas();
  write_section(html, {"quotas", "Quotas", std::to_string(quotas.size()), "quotas"}, scene.connection, [&] {
    HtmlTable table{html, {"Owner", ">Holds", ">Of", "Used"}, most_rows, "quotas", scene.connection};
    for (const auto& quota : quotas) {
      const bool full =
          quota.has_gpu_units() && quota.owner() != each_client && quota.used_units() >= quota.gpu_units();
      const auto used = used_in_words(quota);
      table.row({quota.owner(), quota.owner() == each_client ? "each" : to_string(Share{quota.used_units()}),
                 quota.has_gpu_units()
                     ? fmt::format("{}{}", to_string(Share{quota.gpu_units()}), quota.by_default() ? " (*)" : "")
                     : "no quota",
                 full ? Cell{used + " ⚠ used up", "bad"} : Cell{used}});
    }
  });
}

void write_ended(Html& html, const Scene& scene) {
  const auto& ended = scene.state.ended();
  write_section(html, {"ended", "Actors that have ended", fmt::format("the last {}", ended.size()), "actors --ended"},
                scene.connection, [&] {
                  HtmlTable table{html,
                                  {"Ended (UTC)", "Name", "Type", "Node", ">Restarts", "Error", "Reason"},
                                  most_rows,
                                  "actors --ended 1000",
                                  scene.connection};
                  for (const auto& each : ended)
                    table.row({time_cell(each.unix_ns()), name_cell(each.actor()), each.actor().type(),
                               each.actor().lease().node(), restarts_in_words(each.actor()),
                               std::string{to_string(static_cast<Errc>(each.error()))}, each.reason()});
                });
}

void write_events(Html& html, const Scene& scene) {
  const auto& events = scene.watch.events().events();
  write_section(html, {"events", "Events", fmt::format("the last {}", events.size()), "events"}, scene.connection, [&] {
    HtmlTable table{html,
                    {"Time (UTC)", ">Number", "Kind", "Name", "Place", "Reason"},
                    EventTail::longest,
                    "events",
                    scene.connection};
    for (auto event = events.rbegin(); event != events.rend(); ++event)
      table.row({time_cell(event->unix_ns()), std::to_string(event->sequence()), event->kind(), event->name(),
                 place_in_words(event->lease()), event->reason()});
  });
}

} // namespace gpuactors::cli::dashboard
