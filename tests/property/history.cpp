// Runs a history on the ledger and on the naive model side by side.
#include <gpuactors/plan/scenario_writer.hpp>

#include <property/books.hpp>
#include <property/history.hpp>

#include <algorithm>
#include <set>
#include <sstream>

namespace history {

namespace {

using gpuactors::Event;
using gpuactors::GroupId;
using gpuactors::Holders;
using gpuactors::LeaseId;
using gpuactors::Ledger;
using gpuactors::RequestId;
using gpuactors::ScenarioWriter;

class Runner {
public:
  explicit Runner(const gpuactors::LedgerOptions& options)
    : ledger_(options), model_({options.reservation_after, options.reservation_passes, options.reservation_for}) {
    for (std::uint64_t number = 1; number <= 3; ++number)
      if (ledger_.type(model::type_name(gpuactors::TypeId{number})).value() != number)
        broken_ = "types are not numbered in the order of their names";
  }

  // Writes down from now on what is called.
  void record(std::ostream& out) {
    steps_.emplace(out);
  }

  void finish_record() {
    steps_->finish();
  }

  // Returns what went wrong.
  std::string step(const Op& op) {
    Ledger::Events events;
    model::Model::Outcomes expected;
    if (!call(op, events, expected))
      return {};
    ledger_.check();
    count(op, events);
    if (!model_.complaint().empty())
      return model_.complaint();
    if (auto trouble = compare(events, std::move(expected)); !trouble.empty())
      return trouble;
    if (auto trouble = compare_nodes(); !trouble.empty())
      return trouble;
    if (auto trouble = broken_books(ledger_); !trouble.empty())
      return trouble;
    if (ledger_.remains().size() != model_.remains().size())
      return "what is kept of lost leases differs";
    return compare_lists();
  }

  // The same where nothing can be wrong, as the same calls went well before.
  void repeat(const Op& op) {
    Ledger::Events events;
    model::Model::Outcomes expected;
    call(op, events, expected);
  }

  // Builds a second ledger from what is held in the first: it must look the same, and be all free in the end.
  std::string rebuild() {
    Ledger other;
    const auto now = model_.now();
    for (const auto& [name, spec] : specs_)
      if (!other.add_node(spec, now))
        return "a node could not be added anew";
    for (const auto id : model_.live_groups())
      if (auto bundles = ledger_.bundles_of(GroupId{id});
          bundles.size() == requests_.at(id).bundles.size() || (requests_.at(id).shrinks && !bundles.empty()))
        if (const auto done = other.restore_group(GroupId{id}, requests_.at(id), std::move(bundles), now); !done)
          return done.error().message();
    const auto leases = ledger_.leases();
    for (const auto& lease : leases) {
      const bool apart = (lease.parent && ledger_.find_lease(lease.parent) == nullptr)
                         || (lease.group && other.bundles_of(lease.group).empty());
      // What the lender holds besides, or the group, would be missing.
      if (apart)
        return {};
      if (const auto done = other.restore(lease); !done)
        return done.error().message();
      if (other.restore(lease))
        return "a lease was restored twice";
    }
    ++coverage.rebuilt;
    other.check();
    for (const auto& node : ledger_.nodes()) {
      if (node.state == gpuactors::NodeState::draining)
        (void)other.drain_node(node.name, now);
      for (const auto& device : node.devices)
        if (device.state == gpuactors::DeviceState::failed)
          (void)other.fail_device(node.name, device.index, now);
    }
    // What is kept of lost ones is not known to a ledger that is built anew.
    if (!model_.remains().empty())
      return {};
    if (leases != other.leases())
      return "the leases of a ledger that was built anew differ";
    if (auto trouble = compare_views(other); !trouble.empty())
      return trouble;
    for (const auto& lease : leases)
      if (!other.release(lease.id, lease.epoch, now))
        return "a restored lease cannot be released";
    other.check();
    return {};
  }

  Coverage coverage;

private:
  template <class T>
  static T pick(const std::vector<T>& items, std::uint64_t number) {
    return items[number % items.size()];
  }

  // Runs the call on both; false when it means nothing now.
  bool call(const Op& op, Ledger::Events& events, model::Model::Outcomes& expected) {
    const auto names = model_.node_names();
    const auto leases = model_.live_leases();
    const auto groups = model_.live_groups();
    const auto remains = model_.remains();
    switch (op.kind) {
    case Op::Kind::submit:
      return submit(op, leases, groups, events, expected);
    case Op::Kind::release: {
      if (leases.empty() && remains.empty())
        return false;
      const auto number = op.pick % (leases.size() + remains.size());
      const bool lost = number >= leases.size();
      const auto id = lost ? remains[number - leases.size()] : leases[number];
      const auto lease = lost ? remains_of(id) : *ledger_.lease_of(RequestId{id});
      coverage.remains_released += lost ? 1 : 0;
      if (steps_)
        steps_->release(RequestId{id}, model_.now());
      events = *ledger_.release(lease.id, lease.epoch, model_.now());
      if (ledger_.release(lease.id, lease.epoch, model_.now()))
        broken_ = "a lease was released twice";
      expected = model_.release(id, events);
      return true;
    }
    case Op::Kind::cancel: {
      const auto waiting = model_.waiting_requests();
      if (waiting.empty())
        return false;
      const auto id = pick(waiting, op.pick);
      if (steps_)
        steps_->release(RequestId{id}, model_.now());
      events = *ledger_.cancel(RequestId{id}, model_.now());
      expected = model_.cancel(id, events);
      return true;
    }
    case Op::Kind::submit_group: {
      const auto id = ++next_group_;
      if (steps_)
        steps_->submit_group(GroupId{id}, op.bundles, model_.now());
      events = ledger_.submit_group(GroupId{id}, op.bundles, model_.now());
      expected = model_.submit_group(id, op.bundles, events);
      requests_[id] = op.bundles;
      return true;
    }
    case Op::Kind::release_group:
      if (groups.empty())
        return false;
      if (steps_)
        steps_->release_group(GroupId{pick(groups, op.pick)}, model_.now());
      events = *ledger_.release_group(GroupId{pick(groups, op.pick)}, model_.now());
      expected = model_.release_group(pick(groups, op.pick), events);
      return true;
    case Op::Kind::set_quota: {
      const auto& owner = op.request.owner;
      if (!op.quota && !model_.has_quota(owner))
        return false;
      if (steps_)
        steps_->set_quota(owner, op.quota, model_.now());
      events = *ledger_.set_quota(owner, op.quota, model_.now());
      expected = model_.set_quota(owner, op.quota, events);
      return true;
    }
    case Op::Kind::advance: {
      const auto now = model_.now() + std::chrono::seconds{op.seconds};
      if (steps_)
        steps_->advance(now);
      events = ledger_.advance(now);
      expected = model_.advance(now, events);
      return true;
    }
    default:
      return call_on_node(op, names, events, expected);
    }
  }

  bool submit(const Op& op, const std::vector<std::uint64_t>& leases, const std::vector<std::uint64_t>& groups,
              Ledger::Events& events, model::Model::Outcomes& expected) {
    auto request = op.request;
    const auto parent = op.parent == 0 || leases.empty() ? 0 : pick(leases, op.parent);
    if (op.group != 0 && !groups.empty())
      request.group = GroupId{pick(groups, op.group)};
    else
      request.bundle = 0;
    const auto id = ++next_request_;
    if (request.type)
      types_[id] = request.type;
    if (steps_)
      steps_->submit(RequestId{id}, request, ledger_.type_name(request.type), RequestId{parent}, model_.now());
    auto to_ledger = request;
    if (parent != 0)
      to_ledger.parent = ledger_.lease_of(RequestId{parent})->id;
    events = ledger_.submit(RequestId{id}, to_ledger, model_.now());
    if (events.empty() || events.front().request.value() != id)
      broken_ = "the first event is not the answer";
    expected = model_.submit(id, request, parent, events);
    return true;
  }

  gpuactors::Lease remains_of(std::uint64_t request) const {
    for (auto& rest : ledger_.remains())
      if (rest.request.value() == request)
        return rest;
    return {};
  }

  bool call_on_node(const Op& op, const std::vector<std::string>& names, Ledger::Events& events,
                    model::Model::Outcomes& expected) {
    if (op.kind == Op::Kind::add_node) {
      if (std::find(names.begin(), names.end(), op.node.name) != names.end())
        return false;
      if (steps_)
        steps_->add_node(op.node, model_.now());
      events = *ledger_.add_node(op.node, model_.now());
      expected = model_.add_node(op.node, events);
      specs_[op.node.name] = op.node;
      return true;
    }
    if (names.empty())
      return false;
    const auto name = pick(names, op.pick);
    if (op.kind == Op::Kind::set_types) {
      if (steps_)
        steps_->set_types(name, op.node.types, model_.now());
      events = *ledger_.set_types(name, op.node.types, model_.now());
      expected = model_.set_types(name, op.node.types, events);
      specs_.at(name).types = op.node.types;
      for (const auto& event : events) {
        coverage.types_served += event.kind == Event::Kind::granted ? 1 : 0;
        coverage.types_refused += event.kind == Event::Kind::infeasible ? 1 : 0;
      }
      return true;
    }
    if (op.kind == Op::Kind::remove_node) {
      if (steps_)
        steps_->remove_node(name, model_.now());
      events = *ledger_.remove_node(name, model_.now());
      expected = model_.remove_node(name, events);
      specs_.erase(name);
    } else if (op.kind == Op::Kind::drain_node) {
      if (steps_)
        steps_->drain_node(name, model_.now());
      events = *ledger_.drain_node(name, model_.now());
      expected = model_.drain_node(name, events);
    } else if (op.kind == Op::Kind::undrain_node) {
      if (steps_)
        steps_->undrain_node(name, model_.now());
      events = *ledger_.undrain_node(name, model_.now());
      expected = model_.undrain_node(name, events);
    } else {
      const auto count = ledger_.node(name)->devices.size();
      if (count == 0)
        return false;
      const auto index = static_cast<int>((op.pick >> 8) % count);
      const auto holders = op.holders_stay ? Holders::stay : Holders::gone;
      if (steps_)
        steps_->fail_device(name, index, holders, model_.now());
      const auto before = model_.remains().size();
      events = *ledger_.fail_device(name, index, model_.now(), holders);
      expected = model_.fail_device(name, index, op.holders_stay, events);
      coverage.remains += model_.remains().size() - before;
    }
    return true;
  }

  // Nobody is granted on a node without the type, and only what no node has is not found.
  void look_at_types(const Event& event) {
    const auto type = types_.find(event.request.value());
    if (type == types_.end())
      return;
    const auto has = [&](const auto& node) {
      const auto& types = node.second.types;
      return !types || std::count(types->begin(), types->end(), model::type_name(type->second)) > 0;
    };
    if (event.kind == Event::Kind::granted) {
      ++coverage.typed;
      if (!has(*specs_.find(event.lease->node)))
        broken_ = "request " + std::to_string(type->first) + " was granted on a node without its type";
    } else if (event.kind == Event::Kind::infeasible && event.code == gpuactors::Errc::not_found) {
      ++coverage.type_not_found;
      if (event.reason.rfind("no node has the type", 0) == 0 && std::any_of(specs_.begin(), specs_.end(), has))
        broken_ = "request " + std::to_string(type->first) + " has not found its type, which a node has";
    } else if (event.kind == Event::Kind::infeasible && !specs_.empty()
               && std::none_of(specs_.begin(), specs_.end(), has)
               && event.reason.find("the quota of") == std::string::npos
               && event.reason.find("no node is named") == std::string::npos) {
      broken_ =
          "request " + std::to_string(type->first) + " is for a type that no node has, and it says: " + event.reason;
    }
  }

  void count(const Op& op, const Ledger::Events& events) {
    for (const auto& event : events)
      look_at_types(event);
    for (const auto& event : events) {
      ++coverage.events[event.kind];
      const bool granted = event.kind == Event::Kind::granted;
      coverage.groups += granted && event.group ? 1 : 0;
      coverage.shrunk += granted && event.group && !event.reason.empty() ? 1 : 0;
      if (granted && event.group)
        coverage.mended += torn_.erase(event.group.value());
      else if (event.group && event.kind == Event::Kind::pending && op.kind != Op::Kind::submit_group
               && event.bundles.empty() && !ledger_.bundles_of(event.group).empty())
        coverage.torn += torn_.insert(event.group.value()).second ? 1 : 0;
      if (!granted || !event.lease)
        continue;
      coverage.from_queue += op.kind == Op::Kind::submit ? 0 : 1;
      coverage.borrowed += event.lease->parent ? 1 : 0;
      coverage.in_bundles += event.lease->group ? 1 : 0;
    }
    coverage.reservations += ledger_.reservations().empty() ? 0 : 1;
    for (const auto& event : events)
      if (drained_.erase({event.request.value(), event.group.value()}) > 0) {
        coverage.drained_served += event.kind == Event::Kind::granted ? 1 : 0;
        coverage.drained_refused += event.kind == Event::Kind::infeasible ? 1 : 0;
      }
    for (const auto& event : events) {
      const bool infeasible = event.kind == Event::Kind::infeasible;
      coverage.beyond_quota += infeasible && event.reason.find("the quota of") != std::string::npos ? 1 : 0;
      if (over_quota_.erase({event.request.value(), event.group.value()}) == 0)
        continue;
      coverage.over_quota_served += event.kind == Event::Kind::granted ? 1 : 0;
      coverage.over_quota_refused += infeasible ? 1 : 0;
    }
    for (const auto& waiting : ledger_.pending()) {
      coverage.waited_for_type += waiting.reason.find("not have the type") == std::string::npos ? 0 : 1;
      coverage.held_back += waiting.reason.find("held back") == std::string::npos ? 0 : 1;
      const std::pair id{waiting.request.value(), waiting.group.value()};
      const bool drained = model_.waits_for_drained(id.first, id.second);
      if (drained != (waiting.reason.find("being drained") != std::string::npos))
        broken_ = "request " + std::to_string(id.first) + " group " + std::to_string(id.second)
                  + " waits with the wrong reason: " + waiting.reason;
      else if (drained)
        coverage.drained += drained_.insert(id).second ? 1 : 0;
      const auto over = waiting.group ? ledger_.over_quota(waiting.group) : ledger_.over_quota(waiting.request);
      if (over.has_value() != model_.waits_for_owner(id.first, id.second))
        broken_ = "request " + std::to_string(id.first) + " group " + std::to_string(id.second)
                  + (over ? " waits, it says, for what \"" + *over + "\" holds"
                          : " waits for what its owner holds, and does not say so");
      if (drained || !model_.is_over_quota(id.first, id.second))
        continue;
      coverage.over_quota += over_quota_.insert(id).second ? 1 : 0;
      if (waiting.reason.find("the quota of") == std::string::npos
          && waiting.reason.find("it waits for new nodes") == std::string::npos)
        broken_ = "request " + std::to_string(id.first) + " group " + std::to_string(id.second)
                  + " waits for its quota, but says: " + waiting.reason;
    }
  }

  static std::string describe(const std::vector<model::Outcome>& outcomes) {
    std::string text;
    for (const auto& outcome : outcomes)
      text += "\n    " + std::string{to_string(outcome.kind)} + " request " + std::to_string(outcome.request)
              + " group " + std::to_string(outcome.group) + " " + outcome.place;
    return text;
  }

  std::string compare(const Ledger::Events& events, std::vector<model::Outcome> expected) const {
    if (!broken_.empty())
      return broken_;
    std::vector<model::Outcome> got;
    for (const auto& event : events) {
      const bool granted = event.kind == Event::Kind::granted && event.lease;
      got.push_back({event.kind, event.request.value(), event.group.value(),
                     granted ? model::place_text(event.lease->node, event.lease->devices) : std::string{}});
      const bool explains = event.kind == Event::Kind::pending || event.kind == Event::Kind::infeasible
                            || event.kind == Event::Kind::rejected || event.kind == Event::Kind::lost;
      if (explains && event.reason.empty())
        return "an event has no reason" + describe(got);
    }
    std::sort(got.begin(), got.end());
    std::sort(expected.begin(), expected.end());
    if (got == expected)
      return {};
    return "  the ledger says" + describe(got) + "\n  the model says" + describe(expected);
  }

  // The ledger's own picture of the devices is the model's.
  std::string compare_nodes() const {
    for (const auto& node : ledger_.nodes())
      for (const auto& device : node.devices) {
        const auto free = model_.free_of(node.name, device.index);
        if (free.share != device.free_share || free.memory_bytes != device.free_memory_bytes)
          return "device " + std::to_string(device.index) + " of " + node.name + " has " + to_string(device.free_share)
                 + " free, the model says " + to_string(free.share);
      }
    return {};
  }

  std::string compare_lists() const {
    auto leases = ledger_.leases();
    if (leases.size() != model_.live_leases().size())
      return "the numbers of leases differ";
    if (ledger_.pending_count() - model_.waiting_requests().size() > model_.live_groups().size())
      return "the numbers of waiting requests differ";
    for (const auto& quota : ledger_.quotas())
      if (quota.used.units() != model_.used_by(quota.owner))
        return "owner " + quota.owner + " holds " + to_string(quota.used) + ", not what the model says";
    for (const auto* owner : {"a", "b", "c"})
      if (model_.used_by(owner) != used_in(ledger_, owner))
        return std::string{"what owner "} + owner + " holds is not counted";
    return model_.broken_promise(ledger_.reservations());
  }

  static std::int64_t used_in(const Ledger& ledger, const std::string& owner) {
    for (const auto& quota : ledger.quotas())
      if (quota.owner == owner)
        return quota.used.units();
    return 0;
  }

  // Groups that wait for a bundle were left out: then the nodes differ by what the others hold.
  std::string compare_views(const Ledger& other) const {
    const auto mine = ledger_.nodes();
    const auto theirs = other.nodes();
    for (const auto id : model_.live_groups())
      if (ledger_.bundles_of(GroupId{id}).size() != other.bundles_of(GroupId{id}).size())
        return {};
    for (std::size_t i = 0; i < mine.size(); ++i) {
      bool same = mine[i].free_cpus == theirs[i].free_cpus && mine[i].free_resources == theirs[i].free_resources;
      for (std::size_t d = 0; d < mine[i].devices.size(); ++d) {
        const auto& a = mine[i].devices[d];
        const auto& b = theirs[i].devices[d];
        same = same && a.state == b.state && a.free_share == b.free_share && a.free_memory_bytes == b.free_memory_bytes
               && a.leases == b.leases && a.groups == b.groups;
      }
      if (!same)
        return "node " + mine[i].name + " of a ledger that was built anew differs";
    }
    for (const auto* owner : {"a", "b", "c"})
      if (used_in(ledger_, owner) != used_in(other, owner))
        return std::string{"what owner "} + owner + " holds of a ledger that was built anew differs";
    return {};
  }

  Ledger ledger_;
  model::Model model_;
  std::map<std::string, gpuactors::NodeSpec> specs_;
  std::map<std::uint64_t, gpuactors::GroupRequest> requests_;
  std::optional<ScenarioWriter> steps_;
  std::string broken_;
  std::uint64_t next_request_ = 0;
  std::uint64_t next_group_ = 0;
  std::set<std::uint64_t> torn_;
  // Of requests that are for one.
  std::map<std::uint64_t, gpuactors::TypeId> types_;
  // (request, group) of those that have waited for a drained node and still wait.
  std::set<std::pair<std::uint64_t, std::uint64_t>> drained_;
  // The same for room in a quota.
  std::set<std::pair<std::uint64_t, std::uint64_t>> over_quota_;
};

} // namespace

std::string run(const History& history, Coverage* coverage, std::size_t known) {
  Runner runner(history.options);
  if (coverage != nullptr)
    runner.coverage = std::move(*coverage);
  std::string trouble;
  for (std::size_t i = 0; i < known; ++i)
    runner.repeat(history.ops[i]);
  for (std::size_t i = known; i < history.ops.size() && trouble.empty(); ++i)
    if (auto wrong = runner.step(history.ops[i]); !wrong.empty())
      trouble = "after call " + std::to_string(i) + ":\n" + wrong;
  if (trouble.empty())
    trouble = runner.rebuild();
  if (coverage != nullptr)
    *coverage = std::move(runner.coverage);
  return trouble;
}

History shrink(History history) {
  for (auto chunk = history.ops.size(); chunk > 0; chunk /= 2)
    for (std::size_t at = 0; at < history.ops.size();) {
      auto smaller = history;
      const auto first = smaller.ops.begin() + static_cast<std::ptrdiff_t>(at);
      smaller.ops.erase(first, first + static_cast<std::ptrdiff_t>(std::min(chunk, smaller.ops.size() - at)));
      if (run(smaller).empty())
        at += chunk;
      else
        history = std::move(smaller);
    }
  return history;
}

std::string scenario(const History& history) {
  std::ostringstream out;
  Runner runner(history.options);
  runner.record(out);
  for (const auto& op : history.ops)
    if (!runner.step(op).empty())
      break;
  runner.finish_record();
  return out.str();
}

} // namespace history
