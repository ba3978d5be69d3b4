// Runs a scenario step by step as it is parsed, so that a long one needs no more memory than its state.
#include <gpuactors/base/suggest.hpp>
#include <gpuactors/ledger/ledger.hpp>
#include <gpuactors/plan/plan.hpp>
#include <gpuactors/plan/reader.hpp>
#include <gpuactors/plan/writer.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <istream>
#include <limits>
#include <ostream>
#include <unordered_map>

namespace gpuactors {

namespace {

using plan_detail::Json;
using plan_detail::Reader;
using plan_detail::ScenarioError;

// waiting or held -> over (refused, lost) -> released; or straight to released.
enum class Phase : std::uint8_t { live, over, released };

// Requests or groups by the name that the scenario gives them; their id counts from 1 in order of appearance.
class Table {
public:
  std::uint64_t add(const std::string& name, const std::string& place) {
    const auto [it, added] = ids_.try_emplace(name, ids_.size() + 1);
    if (!added)
      throw ScenarioError(fmt::format("{} is \"{}\", which is taken: each id is used once", place, name));
    names_.push_back(&it->first);
    phases_.push_back(Phase::live);
    return it->second;
  }

  std::uint64_t find(const std::string& name, const std::string& place) const {
    const auto it = ids_.find(name);
    if (it != ids_.end())
      return it->second;
    // Sorted, so that the hint does not depend on a hash; among very many names a hint is no help.
    std::vector<std::string> known;
    if (names_.size() <= 1000)
      for (const auto* candidate : names_)
        known.push_back(*candidate);
    std::sort(known.begin(), known.end());
    throw ScenarioError(
        fmt::format("{} is \"{}\", which no step before has submitted{}", place, name, did_you_mean(name, known)));
  }

  const std::string& name_of(std::uint64_t id) const {
    return *names_.at(id - 1);
  }

  Phase& phase_of(std::uint64_t id) {
    return phases_.at(id - 1);
  }

private:
  std::unordered_map<std::string, std::uint64_t> ids_;
  std::vector<const std::string*> names_;
  std::vector<Phase> phases_;
};

class Runner {
public:
  explicit Runner(std::ostream& out) : out_(out) {
    // nop
  }

  void add_node(const Json& value, const std::string& place) {
    write(expect(ledger_.add_node(plan_detail::read_node(value, place), now_), place));
  }

  void run_step(const Json& step, std::size_t number) {
    step_ = number;
    const auto place = fmt::format("steps[{}]", number);
    static const std::vector<std::string> known = {"submit",        "submit_group", "release",
                                                   "release_group", "add_node",     "drain_node",
                                                   "remove_node",   "fail_device",  "advance"};
    const Reader reader(step, place, known);
    if (step.size() != 1)
      throw ScenarioError(
          fmt::format("{} has {} fields: exactly one of {} is expected", place, step.size(), fmt::join(known, ", ")));
    const auto& action = step.begin().key();
    const auto& value = step.begin().value();
    const auto at = place + "." + action;
    if (action == "submit")
      submit(value, at);
    else if (action == "submit_group")
      submit_group(value, at);
    else if (action == "release")
      release(value, at);
    else if (action == "release_group")
      release_group(value, at);
    else if (action == "advance")
      advance(value, at);
    else
      change_node(action, value, at);
  }

  void finish() {
    const auto request_name = [this](RequestId id) { return requests_.name_of(id.value()); };
    const auto group_name = [this](GroupId id) { return groups_.name_of(id.value()); };
    plan_detail::write_final(out_, ledger_.nodes(), ledger_.pending(),
                             {[&](LeaseId id) { return request_name(ledger_.find_lease(id)->request); }, group_name,
                              [&](const PendingView& waiting) {
                                return waiting.request ? request_name(waiting.request) : group_name(waiting.group);
                              }});
  }

private:
  void submit(const Json& value, const std::string& place) {
    auto read = plan_detail::read_submit(value, place);
    auto& request = read.request;
    if (!read.group.empty()) {
      const auto group = groups_.find(read.group, place + ".group");
      request.group = GroupId{group};
      if (groups_.phase_of(group) != Phase::live && read.refused.empty())
        read.refused = fmt::format("placement group \"{}\" is not there any more", read.group);
    }
    if (!read.parent.empty())
      if (const auto* lease = ledger_.lease_of(RequestId{requests_.find(read.parent, place + ".parent")}))
        request.parent = lease->id;
    const RequestId id{requests_.add(read.id, place + ".id")};
    if (read.refused.empty())
      write(ledger_.submit(id, std::move(request), now_));
    else
      write({Event{Event::Kind::rejected, id, {}, std::nullopt, {}, Errc::invalid_argument, read.refused}});
  }

  void submit_group(const Json& value, const std::string& place) {
    auto read = plan_detail::read_group(value, place);
    const GroupId id{groups_.add(read.id, place + ".id")};
    if (read.refused.empty())
      write(ledger_.submit_group(id, std::move(read.request), now_));
    else
      write({Event{Event::Kind::rejected, {}, id, std::nullopt, {}, Errc::invalid_argument, read.refused}});
  }

  // What was refused or lost holds nothing: giving it back has no effect, once.
  static void expect_unreleased(Phase phase, const std::string& place, const std::string& name) {
    if (phase == Phase::released)
      throw ScenarioError(fmt::format("{} is \"{}\", which was released before", place, name));
  }

  void release(const Json& value, const std::string& place) {
    const auto name = Reader(value, place, {"id"}).text("id");
    const RequestId id{requests_.find(name, place + ".id")};
    auto& phase = requests_.phase_of(id.value());
    expect_unreleased(phase, place + ".id", name);
    if (phase == Phase::over)
      write({Event{Event::Kind::released, id, {}, std::nullopt, {}, Errc::none, {}}});
    else if (const auto* lease = ledger_.lease_of(id))
      write(expect(ledger_.release(lease->id, lease->epoch, now_), place));
    else
      write(expect(ledger_.cancel(id, now_), place));
    phase = Phase::released;
  }

  void release_group(const Json& value, const std::string& place) {
    const auto name = Reader(value, place, {"id"}).text("id");
    const GroupId id{groups_.find(name, place + ".id")};
    auto& phase = groups_.phase_of(id.value());
    expect_unreleased(phase, place + ".id", name);
    if (phase == Phase::over)
      write({Event{Event::Kind::released, {}, id, std::nullopt, {}, Errc::none, {}}});
    else
      write(expect(ledger_.release_group(id, now_), place));
    phase = Phase::released;
  }

  void change_node(const std::string& action, const Json& value, const std::string& place) {
    if (action == "add_node")
      return add_node(value, place);
    if (action == "fail_device") {
      const Reader reader(value, place, {"node", "index"});
      (void)reader.at("index");
      const auto index = std::min<std::int64_t>(reader.integer("index", 0, 0), std::numeric_limits<int>::max());
      return write(expect(ledger_.fail_device(reader.text("node"), static_cast<int>(index), now_), place));
    }
    const auto name = Reader(value, place, {"name"}).text("name");
    write(expect(action == "drain_node" ? ledger_.drain_node(name, now_) : ledger_.remove_node(name, now_), place));
  }

  void advance(const Json& value, const std::string& place) {
    const Reader reader(value, place, {"seconds"});
    constexpr double most_seconds = 1e9;
    const auto seconds = reader.number("seconds");
    if (seconds > most_seconds)
      throw ScenarioError(
          fmt::format("{} is {}: at most {} is allowed", reader.place_of("seconds"), seconds, most_seconds));
    const auto target =
        deadline_after(now_, std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds)));
    // Stop at every timeout on the way, as a clock would.
    while (true) {
      const auto next = ledger_.next_timeout();
      if (!next || *next > target)
        break;
      now_ = std::max(now_, *next);
      write(ledger_.advance(now_));
    }
    now_ = target;
    write(ledger_.advance(now_));
  }

  Ledger::Events expect(Result<Ledger::Events> events, const std::string& place) const {
    if (!events)
      throw ScenarioError(fmt::format("{}: {}", place, events.error().message()));
    return std::move(*events);
  }

  void write(const Ledger::Events& events) {
    for (const auto& event : events) {
      auto& table = event.group ? groups_ : requests_;
      const auto id = event.group ? event.group.value() : event.request.value();
      switch (event.kind) {
      case Event::Kind::infeasible:
      case Event::Kind::rejected:
      case Event::Kind::lost:
        table.phase_of(id) = Phase::over;
        break;
      case Event::Kind::granted:
      case Event::Kind::pending:
      case Event::Kind::released:
        break;
      }
      plan_detail::write_event(out_, step_, event, table.name_of(id));
    }
  }

  std::ostream& out_;
  Ledger ledger_;
  TimePoint now_{};
  std::size_t step_ = 0;
  Table requests_;
  Table groups_;
};

// Follows the parser: elements of `nodes` and `steps` are run as soon as they are complete, and forgotten.
class Scenario {
public:
  explicit Scenario(Runner& runner) : runner_(runner) {
    // nop
  }

  // Returns whether the parser should keep the value.
  bool operator()(int depth, Json::parse_event_t event, const Json& value) {
    if (depth == 0 && (event == Json::parse_event_t::array_start || event == Json::parse_event_t::value))
      throw ScenarioError("the scenario is no object: {\"nodes\":[...],\"steps\":[...]} is expected");
    if (depth == 1 && event == Json::parse_event_t::key)
      return enter(value.get<std::string>());
    if (depth == 1 && (event == Json::parse_event_t::object_start || event == Json::parse_event_t::value))
      throw ScenarioError(fmt::format("{} is no array: an array of objects is expected", field_));
    if (depth != 2)
      return true;
    if (event == Json::parse_event_t::object_end || event == Json::parse_event_t::array_end
        || event == Json::parse_event_t::value) {
      element(value);
      return false;
    }
    return true;
  }

  // Steps that came before the nodes run now.
  void finish() {
    for (const auto& step : early_steps_)
      runner_.run_step(step, next_step_++);
  }

private:
  bool enter(std::string field) {
    static const std::vector<std::string> known = {"nodes", "steps"};
    if (std::find(known.begin(), known.end(), field) == known.end())
      throw ScenarioError(fmt::format("{}: unknown field{}", field, did_you_mean(field, known)));
    if (std::find(seen_.begin(), seen_.end(), field) != seen_.end())
      throw ScenarioError(fmt::format("{} is there twice", field));
    seen_.push_back(field);
    field_ = std::move(field);
    return true;
  }

  void element(const Json& value) {
    if (field_ == "nodes")
      runner_.add_node(value, fmt::format("nodes[{}]", next_node_++));
    else if (seen_.front() == "nodes")
      runner_.run_step(value, next_step_++);
    else
      early_steps_.push_back(value);
  }

  Runner& runner_;
  std::string field_;
  std::vector<std::string> seen_;
  std::size_t next_node_ = 0;
  std::size_t next_step_ = 0;
  std::vector<Json> early_steps_;
};

// "parse error at line 1, column 7: ...", without the parser's own name for the error.
std::string without_prefix(std::string_view text) {
  const auto end = text.find("] ");
  return std::string{end == std::string_view::npos ? text : text.substr(end + 2)};
}

} // namespace

Result<void> run_plan(std::istream& in, std::ostream& out) {
  Runner runner(out);
  Scenario scenario(runner);
  try {
    // What the scenario runs is dropped as it is parsed: nothing is left in the end.
    const auto rest = Json::parse(
        in, [&](int depth, Json::parse_event_t event, Json& value) { return scenario(depth, event, value); });
    scenario.finish();
  } catch (const ScenarioError& error) {
    return fail(Errc::invalid_argument, error.message);
  } catch (const Json::exception& error) {
    return fail(Errc::invalid_argument, without_prefix(error.what()));
  }
  runner.finish();
  return {};
}

} // namespace gpuactors
