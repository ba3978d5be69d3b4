// Histories of two brokers, and what has to be true of them.
#include <gpuactors/base/limits.hpp>

#include <fmt/format.h>
#include <sim/pair.hpp>

#include <algorithm>
#include <iterator>

namespace simulation {

namespace {

using namespace std::chrono_literals;

/// The nodes that have hosts of their own have these and the following numbers.
constexpr std::size_t first_own_host = 2;

} // namespace

Pair::Pair(std::uint64_t seed, PairOptions options, PairCoverage& coverage, std::ostream* trace)
  : options_(options), coverage_(coverage), trace_(trace), hosts_(seed, link_timeout) {
  for (std::size_t i = 0; i < 2; ++i) {
    auto& broker = brokers_[i];
    broker.process.name = fmt::format("{}", i == 0 ? 'a' : 'b');
    broker.process.host = i;
    broker.address = fmt::format("10.0.0.{}:7711", i + 1);
    broker.file = std::make_shared<broker_test::MemoryStore>();
  }
  brokers_[1].standby_of = brokers_[0].address;
  start(brokers_[0]);
  start(brokers_[1]);
  for (std::size_t i = 0; i < options_.nodes; ++i) {
    auto& node = *nodes_.emplace_back(std::make_unique<Node>());
    node.process.name = fmt::format("n{}", i);
    // Beside a broker, or alone.
    node.process.host = i < 2 && hosts_.below(2) == 0 ? i : first_own_host + i;
    start(node);
  }
  watch();
  hosts_.run(2s);
}

void Pair::say(const std::string& what) {
  if (trace_ != nullptr)
    *trace_ << fmt::format("{:8.3f} {}\n", to_seconds(hosts_.now() - TimePoint{1h}), what);
}

void Pair::violated(const std::string& what) {
  say("VIOLATION: " + what);
  violations_.push_back(fmt::format("at {:.3f} s: {}", to_seconds(hosts_.now() - TimePoint{1h}), what));
}

Pair::Kept Pair::kept(const Broker& broker) {
  Kept result{*role_in(*broker.file), {}};
  const auto entries = *broker.file->load(StateSection::actors);
  for (const auto& entry : entries)
    result.changes.insert(std::get<std::uint64_t>(entry.key));
  return result;
}

std::vector<Hosts::Process*> Pair::processes() {
  std::vector<Hosts::Process*> all;
  for (auto& broker : brokers_)
    all.push_back(&broker.process);
  for (auto& node : nodes_)
    all.push_back(&node->process);
  return all;
}

// -- faults ---------------------------------------------------------------------------------------

void Pair::live(Duration time) {
  const auto faults = options_.cuts + options_.deaths + options_.freezes + options_.lost_files;
  for (std::size_t i = 0; i < faults; ++i) {
    hosts_.run(hosts_.between(0ms, 2 * time / static_cast<int>(faults)));
    auto at = hosts_.below(faults);
    if (at < options_.cuts)
      cut();
    else
      hurt();
  }
}

void Pair::cut() {
  const auto hosts = first_own_host + options_.nodes;
  const auto one = hosts_.below(hosts);
  const auto two = hosts_.below(hosts);
  ++coverage_["cut"];
  const auto both = [&](std::size_t a, std::size_t b) {
    hosts_.cut(a, b);
    hosts_.cut(b, a);
  };
  switch (hosts_.below(7)) {
  case 0:
    say("the network is whole");
    return hosts_.heal();
  case 1:
    say(fmt::format("host {} does not reach {}", one, two));
    return hosts_.cut(one, two);
  case 2:
    say("the brokers do not reach each other");
    return both(0, 1);
  case 3:
    say(fmt::format("hosts {} and {} do not reach each other", one, two));
    return both(one, two);
  case 4: {
    // One of the brokers' hosts, more often than not.
    const auto alone = hosts_.below(3) == 0 ? one : one % 2;
    say(fmt::format("host {} is cut off", alone));
    for (std::size_t i = 0; i < hosts; ++i)
      both(alone, i);
    return;
  }
  case 5: {
    // Two sides.
    say("the network falls apart");
    hosts_.heal();
    std::vector<std::size_t> side(hosts);
    std::generate(side.begin(), side.end(), [&] { return hosts_.below(2); });
    for (std::size_t i = 0; i < hosts; ++i)
      for (std::size_t j = 0; j < hosts; ++j)
        if (side[i] != side[j])
          hosts_.cut(i, j);
    return;
  }
  default:
    say(fmt::format("host {} reaches {} again", one, two));
    hosts_.heal(one, two);
    hosts_.heal(two, one);
  }
}

void Pair::hurt() {
  const auto faults = options_.deaths + options_.freezes + options_.lost_files;
  const auto what = hosts_.below(faults);
  const auto all = processes();
  // Brokers as often as nodes.
  auto* victim = hosts_.below(2) == 0 ? all[hosts_.below(2)] : all[hosts_.below(all.size())];
  if (!victim->alive)
    return;
  if (what < options_.freezes) {
    say(victim->name + " is frozen");
    ++coverage_["frozen"];
    hosts_.freeze(*victim);
    return hosts_.after(hosts_.between(100ms, 40s), [this, victim, life = victim->life] {
      if (victim->life != life || !victim->frozen)
        return;
      say(victim->name + " goes on");
      hosts_.thaw(*victim);
    });
  }
  if (what < options_.freezes + options_.lost_files) {
    auto& broker = brokers_[hosts_.below(2)];
    say(broker.process.name + " loses its file");
    ++coverage_["file lost"];
    broker.file = std::make_shared<broker_test::MemoryStore>();
    broker.copied_lineage.clear();
    // Nobody can have what was in no other one.
    std::erase_if(changes_,
                  [left = kept(other(broker)).changes](const Change& change) { return left.count(change.id) == 0; });
    if (broker.process.alive)
      stop(broker.process);
    return;
  }
  if (hosts_.below(3) == 0) {
    say(fmt::format("host {} is without power", victim->host));
    ++coverage_["power lost"];
    for (auto* process : all)
      if (process->host == victim->host && process->alive) {
        hosts_.power_off(victim->host, {process});
        stop(*process);
      }
    return;
  }
  say(victim->name + " dies");
  ++coverage_["died"];
  stop(*victim);
}

void Pair::revive(Hosts::Process& process) {
  const auto wait = whole_ || hosts_.below(2) == 0 ? hosts_.between(100ms, 2s) : hosts_.between(100ms, 40s);
  hosts_.after(wait, [this, &process, life = process.life] {
    if (process.life == life)
      start(process);
  });
}

void Pair::start(Hosts::Process& process) {
  if (process.alive || away_.count(&process) > 0)
    return;
  say(process.name + " is started");
  for (auto& broker : brokers_)
    if (&broker.process == &process)
      return start(broker);
  for (auto& node : nodes_)
    if (&node->process == &process)
      return start(*node);
}

void Pair::heal() {
  say("all is well again");
  hosts_.heal();
  whole_ = true;
  if (options_.one_stays_away) {
    const auto host = hosts_.below(2);
    say(fmt::format("but host {} does not come back", host));
    for (auto* process : processes())
      if (process->host == host) {
        away_.insert(process);
        hosts_.power_off(host, {process});
        stop(*process);
      }
  }
  for (auto* process : processes()) {
    hosts_.thaw(*process);
    start(*process);
  }
}

// -- what has to be true --------------------------------------------------------------------------

std::size_t Pair::nodes_of(const Broker& broker) const {
  return static_cast<std::size_t>(
      std::count_if(nodes_.begin(), nodes_.end(), [&](const auto& node) { return node->broker == &broker; }));
}

void Pair::watch() {
  const bool is_served = std::any_of(brokers_.begin(), brokers_.end(), [&](const Broker& broker) {
    return broker.part == Part::serves && !broker.process.frozen && 2 * nodes_of(broker) > nodes_.size();
  });
  if (!is_served)
    majority_since_.reset();
  else if (!majority_since_)
    majority_since_ = hosts_.now();
  else if (hosts_.now() - *majority_since_ > limits::vote_lasts + 2s)
    majority_ = hosts_.now();
  hosts_.after(100ms, [this] { watch(); });
}

void Pair::check_takeover(const Broker& broker, const std::string& why) {
  const auto state = kept(broker);
  const bool is_voted = options_.votes == 0 && why.find("nodes have asked here") != std::string::npos;
  // Of which nodes it knows, it has from when it was answered last.
  if (is_voted && state.role.nodes.size() == nodes_.size() && hosts_.now() - majority_ < 200ms
      && 2 * nodes_of(other(broker)) > nodes_.size())
    violated(fmt::format("{} takes over while most nodes have a broker", broker.process.name));
  if (!state.role.copied || broker.copied_lineage != state.role.lineage)
    return;
  // All that the other one had when it was asked last.
  for (const auto& change : changes_)
    if (change.lineage == broker.copied_lineage && change.term == broker.copied_term && change.time < broker.copied_at
        && state.changes.count(change.id) == 0)
      violated(fmt::format("{} takes over without change {} of {:.3f} s, and had a copy as of {:.3f} s",
                           broker.process.name, change.id, to_seconds(change.time - TimePoint{1h}),
                           to_seconds(broker.copied_at - TimePoint{1h})));
  const auto age = hosts_.now() - broker.copied_at;
  if (age <= link_timeout + limits::vote_lasts + 5s)
    return;
  ++coverage_["taken over with an old copy"];
  if (is_voted && hosts_.now() - majority_ < 15s)
    violated(fmt::format("{} takes over with a copy that is {:.1f} s old, {:.1f} s after most nodes had a broker",
                         broker.process.name, to_seconds(age), to_seconds(hosts_.now() - majority_)));
}

void Pair::check_copy(const Broker& broker, const Kept& before) {
  const auto after = kept(broker);
  std::set<std::uint64_t> lost;
  std::set_difference(before.changes.begin(), before.changes.end(), after.changes.begin(), after.changes.end(),
                      std::inserter(lost, lost.end()));
  if (before.role.has_state() && before.role.lineage != after.role.lineage)
    violated(fmt::format("{} has replaced the state of another cluster", broker.process.name));
  if (lost.empty())
    return;
  ++coverage_["replaced what was taken over"];
  if (after.role.term <= before.role.term)
    violated(fmt::format("{} has replaced a state of term {} with one of term {}, without change {}",
                         broker.process.name, before.role.term, after.role.term, *lost.begin()));
}

std::vector<std::string> Pair::disagreements() {
  std::vector<std::string> found;
  hosts_.run(70s);
  std::vector<const Broker*> serving;
  for (const auto& broker : brokers_)
    if (broker.part == Part::serves)
      serving.push_back(&broker);
  if (serving.empty() && options_.one_stays_away) {
    // Without a state there is nothing to go on with, and without most of the nodes nobody decides.
    const auto& left = away_.count(&brokers_[0].process) > 0 ? brokers_[1] : brokers_[0];
    const auto nodes = static_cast<std::size_t>(std::count_if(
        nodes_.begin(), nodes_.end(), [&](const auto& node) { return away_.count(&node->process) == 0; }));
    if (!kept(left).role.has_state() || (options_.votes == 0 ? 2 * nodes <= nodes_.size() : nodes < options_.votes)) {
      ++coverage_["nobody can serve"];
      return found;
    }
  }
  if (serving.size() != 1) {
    found.push_back(fmt::format("{} brokers serve", serving.size()));
    return found;
  }
  const auto& broker = *serving.front();
  for (const auto& node : nodes_)
    if (away_.count(&node->process) == 0 && (node->broker != &broker || broker.nodes.count(node->process.name) == 0))
      found.push_back(fmt::format("{} is not with {}", node->process.name, broker.process.name));
  const auto& peer = other(broker);
  const auto own = kept(broker);
  const auto its = kept(peer);
  if (away_.empty() && own.role.lineage == its.role.lineage) {
    if (peer.part != Part::stands_by)
      found.push_back(fmt::format("{} does not stand by", peer.process.name));
    if (its.role.term != own.role.term || !its.role.copied)
      found.push_back(fmt::format("{} has no copy of what {} has", peer.process.name, broker.process.name));
    for (const auto& change : changes_)
      if (own.changes.count(change.id) > 0 && change.time + 3s < hosts_.now() && its.changes.count(change.id) == 0)
        found.push_back(fmt::format("{} has not got change {}", peer.process.name, change.id));
  } else if (its.role.lineage == own.role.lineage && its.role.term > own.role.term) {
    ++coverage_["the later state is away"];
  }
  // Of the clusters that there are after files were lost, any.
  for (const auto& change : changes_)
    if (change.lineage == own.role.lineage && change.term == own.role.term && own.changes.count(change.id) == 0)
      found.push_back(fmt::format("{} has lost change {} of its own term", broker.process.name, change.id));
  return found;
}

} // namespace simulation
