// gpuactors events: lists what the broker decided and what happened to it, in order; -f waits for more.
#include "input.hpp"
#include "state_view.hpp"
#include "utc.hpp"
#include "words.hpp"

#include <gpuactors/base/event_kind.hpp>
#include <gpuactors/base/stop_signals.hpp>
#include <gpuactors/base/suggest.hpp>

#include <apps/cli/usage.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <iostream>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>

namespace gpuactors::cli {

namespace {

/// The arguments as they were typed.
struct EventsArguments {
  ClusterOptions cluster;
  bool follow = false;
  std::optional<std::string> since;
  std::vector<std::string> kinds;
  bool json = false;
};

/// The pause between two requests for new events.
constexpr std::chrono::milliseconds between_looks{500};

/// How soon a pending request is given up after Ctrl-C.
constexpr std::chrono::milliseconds stop_slice{50};

void print_event(const v1::Event& event) {
  auto line =
      fmt::format("{} {:>7} {:<15} {:<20} {:<28} {}", utc_for_people(from_unix_ns(event.unix_ns())), event.sequence(),
                  event.kind(), event.name(), place_in_words(event.lease()), one_line(event.reason()));
  line.erase(line.find_last_not_of(' ') + 1);
  std::cout << line << '\n';
}

void print_object(const v1::Event& event) {
  const Json object{{"time", utc_for_programs(from_unix_ns(event.unix_ns()))},
                    {"sequence", event.sequence()},
                    {"kind", event.kind()},
                    {"name", event.name()},
                    {"node", event.lease().node()},
                    {"devices", devices_of(event.lease())},
                    {"lease", event.has_lease() ? json_of(event.lease().id()) : Json("")},
                    {"request", event.request() != 0 ? json_of(event.request()) : Json("")},
                    {"reason", event.reason()}};
  std::cout << object.dump(-1, ' ', false, Json::error_handler_t::replace) << '\n';
}

Result<void> check_kinds(const std::vector<std::string>& asked, const v1::ClusterState& state) {
  // A broker of another release may have more kinds than this program knows.
  const auto& known = event_kind_names;
  for (const auto& kind : asked)
    if (std::find(known.begin(), known.end(), kind) == known.end() && state.counters().count(kind) == 0)
      return fail(Errc::invalid_argument, fmt::format("there is no event of the kind \"{}\"{}", kind,
                                                      did_you_mean(kind, {known.begin(), known.end()})));
  return {};
}

/// Reads the broker's log of events from one sequence number on, piece by piece.
class EventReader {
public:
  EventReader(Cluster cluster, const EventsArguments& arguments, std::uint64_t first, std::stop_token stop)
    : cluster_(std::move(cluster)), arguments_(arguments), next_(first), stop_(std::move(stop)) {
    // nop
  }

  /// Prints the events that the broker has from `next_` on. @returns false if the reader was stopped, or if nobody
  /// reads the output any more.
  Result<bool> read() {
    auto asked = cluster_.state_async({.events_from = next_, .only_past = true});
    while (!asked.ready()) {
      if (stop_.stop_requested())
        return false;
      asked.state()->wait_until(Clock::now() + stop_slice);
    }
    auto answer = asked.get();
    // With -f, an unreachable broker is no error, because it may come back.
    if (!answer && arguments_.follow
        && (answer.error().code() == Errc::unavailable || answer.error().code() == Errc::deadline_exceeded))
      return true;
    GPUACTORS_LET(state, std::move(answer));
    GPUACTORS_TRY(check_kinds(arguments_.kinds, state));
    if (started_ != 0 && started_ != state.started_unix_ns()) {
      std::cerr << "the broker was restarted: its events count from 1 again" << std::endl;
      started_ = state.started_unix_ns();
      next_ = 1;
      told_ = true;
      return read();
    }
    started_ = state.started_unix_ns();
    print(state);
    return static_cast<bool>(std::cout.flush());
  }

  /// Waits until the next request is due. @returns false if the reader was stopped.
  bool pause() {
    std::unique_lock lock{mutex_};
    wake_.wait_for(lock, stop_, between_looks, [] { return false; });
    return !stop_.stop_requested();
  }

private:
  void print(const v1::ClusterState& state) {
    // Reports a gap: events that follow printed ones, or that --since asked for, are no longer in the log.
    const auto oldest = state.events().empty() ? next_ : state.events(0).sequence();
    if ((told_ || arguments_.since) && oldest > next_)
      std::cerr << fmt::format("events {} to {} are not in the broker's log any more", next_, oldest - 1) << std::endl;
    told_ = true;
    const auto& kinds = arguments_.kinds;
    for (const auto& event : state.events()) {
      next_ = event.sequence() + 1;
      if (!kinds.empty() && std::find(kinds.begin(), kinds.end(), event.kind()) == kinds.end())
        continue;
      if (arguments_.json)
        print_object(event);
      else
        print_event(event);
    }
  }

  Cluster cluster_;
  const EventsArguments& arguments_;
  std::uint64_t next_;
  std::stop_token stop_;
  /// When the broker of these events started, in nanoseconds since 1970; 0 before the first answer.
  std::int64_t started_ = 0;
  /// Whether the reader expects the events from `next_` on, so that missing ones are reported.
  bool told_ = false;
  std::mutex mutex_;
  std::condition_variable_any wake_;
};

Result<void> run_events(const EventsArguments& arguments) {
  GPUACTORS_TRY(arguments.cluster.check());
  std::uint64_t first = 1;
  if (arguments.since) {
    GPUACTORS_LET(since, parse_integer("--since", *arguments.since, 1, std::numeric_limits<std::int64_t>::max()));
    first = static_cast<std::uint64_t>(since);
  }
  const StopSignals signals;
  GPUACTORS_LET(cluster, arguments.cluster.open());
  EventReader reader{std::move(cluster), arguments, first, signals.token()};
  do {
    GPUACTORS_LET(goes_on, reader.read());
    if (!goes_on)
      return {};
  } while (arguments.follow && reader.pause());
  return {};
}

} // namespace

Command add_events(CLI::App& program) {
  auto arguments = std::make_shared<EventsArguments>();
  auto* parser = program.add_subcommand("events", "What the broker decided and what happened to it, in order");
  parser->add_flag("-f,--follow", arguments->follow,
                   "Go on with what comes, until Ctrl-C; also over a broker that is started again");
  parser
      ->add_option("--since", arguments->since,
                   "From the event with this number on. Default: all that the broker still has")
      ->type_name("N");
  parser->add_option("--kind", arguments->kinds, "Only events of this kind; may be repeated")
      ->type_name("K")
      ->allow_extra_args(false);
  parser->add_flag("--json", arguments->json, "Print one object a line");
  arguments->cluster.add_to(*parser, ClusterOptions::Kinds::running);
  parser->footer(fmt::format("Each with its time (UTC, by the broker's clock), number, kind, name, place and reason. "
                             "The broker keeps the last "
                             "{} events; a broker that is restarted begins a new log.\n\n"
                             "Kinds: {}.\n\n"
                             "Examples:\n"
                             "  gpuactors events --broker 127.0.0.1:7711\n"
                             "  gpuactors events -f --kind died --kind restarting --kind node_lost\n"
                             "  gpuactors events --since 120 --json | jq -r 'select(.kind == \"died\") | .reason'",
                             limits::event_log, fmt::join(event_kind_names, ", ")));
  return {parser, [arguments] { return run_events(*arguments); }};
}

} // namespace gpuactors::cli
