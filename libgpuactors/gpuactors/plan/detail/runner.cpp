#include <gpuactors/plan/detail/runner.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace gpuactors::plan_detail {

namespace {

Ledger::Events expect(Result<Ledger::Events> events, const std::string& place) {
  if (!events)
    throw ScenarioError(fmt::format("{}: {}", place, events.error().message()));
  return std::move(*events);
}

// A refused or lost request holds nothing: releasing it has no effect, and is allowed once.
void expect_unreleased(Phase phase, const std::string& place, const std::string& name) {
  if (phase == Phase::released)
    throw ScenarioError(fmt::format("{}.id is \"{}\", which was released before", place, name));
}

std::string read_name(const Json& value, const std::string& place, const char* field) {
  return Reader(value, place, {field}).text(field);
}

} // namespace

void Runner::add_node(const Json& value, const std::string& place) {
  auto node = read_node(value, place);
  const auto name = node.name;
  const auto events = expect(ledger_.add_node(std::move(node), now_), place);
  tell_of_node(NodeChange::added, name, -1);
  report(events);
}

void Runner::run_step(const Json& step, std::size_t number) {
  step_ = number;
  const auto place = fmt::format("steps[{}]", number);
  static const std::vector<std::string> known = {"submit",      "submit_group", "release",      "release_group",
                                                 "add_node",    "drain_node",   "undrain_node", "remove_node",
                                                 "fail_device", "set_types",    "set_quota",    "advance"};
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
  else if (action == "set_quota")
    set_quota(value, at);
  else if (action == "advance")
    advance(value, at);
  else
    change_node(action, value, at);
  for (const auto& observer : observers_)
    observer->after_step(ledger_, step_, now_);
}

void Runner::finish() {
  const Names names{[this](RequestId id) { return requests_.name_of(id.value()); },
                    [this](GroupId id) { return groups_.name_of(id.value()); }};
  for (const auto& observer : observers_)
    observer->on_end(ledger_, names);
}

void Runner::submit(const Json& value, const std::string& place) {
  auto read = read_submit(value, place);
  auto& request = read.request;
  if (!read.group.empty()) {
    if (groups_.phase_of(read.group, place + ".group") == Phase::live)
      request.group = GroupId{groups_.number_of(read.group)};
    else if (read.refused.empty())
      read.refused = fmt::format("placement group \"{}\" is not there any more", read.group);
  }
  if (!read.parent.empty() && requests_.phase_of(read.parent, place + ".parent") == Phase::live)
    if (const auto* lease = ledger_.lease_of(RequestId{requests_.number_of(read.parent)}))
      request.parent = lease->id;
  request.type = ledger_.type(read.type);
  const RequestId id{requests_.add(read.id, place + ".id")};
  if (!read.refused.empty())
    return report({Event::about(id, Event::Kind::rejected, Errc::invalid_argument, read.refused)});
  for (const auto& observer : observers_)
    observer->before_submit(ledger_, step_, read.id, request);
  report(ledger_.submit(id, std::move(request), now_));
}

void Runner::submit_group(const Json& value, const std::string& place) {
  auto read = read_group(value, place);
  const GroupId id{groups_.add(read.id, place + ".id")};
  if (!read.refused.empty())
    return report({Event::about(id, Event::Kind::rejected, Errc::invalid_argument, read.refused)});
  for (const auto& observer : observers_)
    observer->before_submit_group(ledger_, step_, read.id, read.request);
  report(ledger_.submit_group(id, std::move(read.request), now_));
}

void Runner::release(const Json& value, const std::string& place) {
  const auto name = read_name(value, place, "id");
  const auto phase = requests_.phase_of(name, place + ".id");
  expect_unreleased(phase, place, name);
  if (phase == Phase::over) {
    requests_.release(name);
    return tell(Event::about(RequestId{}, Event::Kind::released), name);
  }
  const RequestId id{requests_.number_of(name)};
  if (const auto* lease = ledger_.lease_of(id))
    return report(expect(ledger_.release(lease->id, lease->epoch, now_), place));
  if (const auto lost = lost_.extract(id); !lost.empty()) {
    if (const auto* rest = ledger_.find_remains(lost.mapped()))
      return report(expect(ledger_.release(rest->id, rest->epoch, now_), place));
    // Its node was removed since.
    return report({Event::about(id, Event::Kind::released)});
  }
  report(expect(ledger_.cancel(id, now_), place));
}

void Runner::release_group(const Json& value, const std::string& place) {
  const auto name = read_name(value, place, "id");
  const auto phase = groups_.phase_of(name, place + ".id");
  expect_unreleased(phase, place, name);
  if (phase == Phase::over) {
    groups_.release(name);
    return tell(Event::about(GroupId{}, Event::Kind::released), name);
  }
  report(expect(ledger_.release_group(GroupId{groups_.number_of(name)}, now_), place));
}

void Runner::change_node(const std::string& action, const Json& value, const std::string& place) {
  if (action == "add_node")
    return add_node(value, place);
  if (action == "fail_device") {
    const Reader reader(value, place, {"node", "index", "holders_stay"});
    (void)reader.at("index");
    const auto index = std::min<std::int64_t>(reader.integer("index", 0, 0), std::numeric_limits<int>::max());
    const auto name = reader.text("node");
    const auto holders = reader.flag("holders_stay", false) ? Holders::stay : Holders::gone;
    const auto events = expect(ledger_.fail_device(name, static_cast<int>(index), now_, holders), place);
    tell_of_node(NodeChange::device_failed, name, static_cast<int>(index));
    return report(events);
  }
  if (action == "set_types") {
    auto step = read_types(value, place);
    return report(expect(ledger_.set_types(step.node, std::move(step.types), now_), place));
  }
  const auto name = read_name(value, place, "name");
  if (action == "drain_node") {
    const auto events = expect(ledger_.drain_node(name, now_), place);
    tell_of_node(NodeChange::drained, name, -1);
    return report(events);
  }
  if (action == "undrain_node") {
    const auto events = expect(ledger_.undrain_node(name, now_), place);
    tell_of_node(NodeChange::undrained, name, -1);
    return report(events);
  }
  const auto events = expect(ledger_.remove_node(name, now_), place);
  tell_of_node(NodeChange::removed, name, -1);
  report(events);
}

void Runner::set_quota(const Json& value, const std::string& place) {
  const auto quota = read_quota(value, place);
  report(expect(ledger_.set_quota(quota.owner, quota.limit, now_), place));
}

void Runner::advance(const Json& value, const std::string& place) {
  const Reader reader(value, place, {"seconds", "late"});
  constexpr double most_seconds = 1e9;
  const auto seconds = reader.number("seconds");
  if (seconds > most_seconds)
    throw ScenarioError(
        fmt::format("{} is {}: at most {} is allowed", reader.place_of("seconds"), seconds, most_seconds));
  // Rounds to the nanosecond: a recording names nanoseconds, which most doubles miss by a little.
  const auto target = deadline_after(now_, std::chrono::round<Duration>(std::chrono::duration<double>(seconds)));
  if (reader.flag("late", false)) {
    now_ = target;
    return;
  }
  // Stops at every timeout on the way, as a clock would.
  while (true) {
    const auto next = ledger_.next_timeout();
    if (!next || *next > target)
      break;
    now_ = std::max(now_, *next);
    report(ledger_.advance(now_));
  }
  now_ = target;
  report(ledger_.advance(now_));
}

void Runner::tell_of_node(NodeChange change, const std::string& node, int index) {
  for (const auto& observer : observers_)
    observer->on_node(ledger_, step_, change, node, index);
}

void Runner::tell(const Event& event, const std::string& id) {
  for (const auto& observer : observers_)
    observer->on_event(ledger_, step_, event, id);
}

void Runner::report(const Ledger::Events& events) {
  for (const auto& event : events) {
    auto& table = event.group ? groups_ : requests_;
    const auto number = event.group ? event.group.value() : event.request.value();
    tell(event, table.name_of(number));
    switch (event.kind) {
    case Event::Kind::lost:
      // Its holder stays, and has yet to release what is left of it.
      if (event.lease && ledger_.find_remains(event.lease->id) != nullptr)
        lost_.emplace(event.request, event.lease->id);
      else
        table.end(number, Phase::over);
      break;
    case Event::Kind::infeasible:
    case Event::Kind::rejected:
      table.end(number, Phase::over);
      break;
    case Event::Kind::released:
      table.end(number, Phase::released);
      break;
    case Event::Kind::granted:
    case Event::Kind::pending:
      break;
    }
  }
}

} // namespace gpuactors::plan_detail
