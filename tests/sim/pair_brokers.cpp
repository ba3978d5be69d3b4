// The shells around the cores of brokers that stand by: as cluster/detail/standby_part and broker_part.
#include <gpuactors/base/limits.hpp>

#include <fmt/format.h>
#include <sim/pair.hpp>

namespace simulation {

using namespace std::chrono_literals;

void Pair::start(Broker& broker) {
  hosts_.start(broker.process);
  broker.part = Part::none;
  broker.standby.reset();
  broker.nodes.clear();
  broker.active = nullptr;
  broker.file->lose_pending();
  auto role = *role_in(*broker.file);
  auto& peer = other(broker);
  switch (start_of(role, broker.standby_of || role.other)) {
  case BrokerStart::serve:
    return serve(broker, false);
  case BrokerStart::stand_by:
    return stand_by(broker, {});
  case BrokerStart::ask:
    break;
  }
  hosts_.dial(broker.process, peer.process, [this, &broker, &peer, role](const Hosts::LinkPtr& link) {
    if (link == nullptr)
      return serve(broker, false);
    ask(broker, peer, link, start_question(role), [this, &broker, link](const Result<v1::StateChanges>& answer) {
      hosts_.close(link, broker.process);
      if (!answer)
        return serve(broker, false);
      stand_by(broker, {answer->nodes().begin(), answer->nodes().end()});
    });
  });
}

void Pair::end(Broker& broker, const std::string& error) {
  say(fmt::format("{} ends: {}", broker.process.name, error));
  ++coverage_["ended with an error"];
  broker.error = error;
  // What is to be written when a broker ends is written then.
  if (broker.feed != nullptr)
    static_cast<void>(broker.feed->commit());
  stop(broker.process);
}

void Pair::stop(Hosts::Process& process) {
  hosts_.kill(process);
  for (auto& broker : brokers_)
    if (&broker.process == &process) {
      broker.part = Part::none;
      broker.standby.reset();
      broker.feed.reset();
      broker.nodes.clear();
    }
  for (auto& node : nodes_)
    if (&node->process == &process)
      node->broker = nullptr;
  revive(process);
}

// -- standing by ----------------------------------------------------------------------------------

void Pair::stand_by(Broker& broker, std::set<std::string> nodes) {
  const auto role = *role_in(*broker.file);
  const auto active = broker.standby_of ? *broker.standby_of : *role.other;
  static_cast<void>(begin_to_stand_by(*broker.file, active));
  const Succession::Rules rules{link_timeout, limits::vote_lasts, options_.votes};
  broker.standby.emplace(broker.file, role, StandbyCore::Options{broker.address, active, rules, std::move(nodes)},
                         hosts_.now());
  broker.part = Part::stands_by;
  broker.turns = DialTurns{1};
  broker.process.listens = true;
  say(fmt::format("{} stands by, term {}", broker.process.name, role.term));
  ++coverage_["stands by"];
  dial_active(broker);
  look(broker);
}

void Pair::dial_active(Broker& broker) {
  if (broker.part != Part::stands_by)
    return;
  hosts_.dial(broker.process, other(broker).process, [this, &broker](const Hosts::LinkPtr& link) {
    if (broker.part != Part::stands_by)
      return;
    if (link == nullptr)
      return redial_active(broker, Error{Errc::unavailable, "there is no connection"}, false);
    broker.turns.connected();
    broker.active = link;
    link->of(broker.process).lost = [this, &broker, end = &link->of(broker.process)] {
      if (broker.active != nullptr && &broker.active->of(broker.process) == end)
        redial_active(broker, Error{Errc::unavailable, "the connection is lost"}, false);
    };
    follow(broker);
  });
}

void Pair::redial_active(Broker& broker, const Error& why, bool refused) {
  if (broker.active != nullptr)
    hosts_.close(broker.active, broker.process);
  broker.active = nullptr;
  if (broker.part != Part::stands_by)
    return;
  broker.standby->unreachable(why);
  const auto pause = refused ? broker.turns.refused(hosts_.random()) : broker.turns.lost(hosts_.random());
  hosts_.after(broker.process, pause, [this, &broker] { dial_active(broker); });
}

void Pair::follow(Broker& broker) {
  if (broker.active == nullptr || broker.part != Part::stands_by)
    return;
  ask(broker, other(broker), broker.active, broker.standby->question(),
      [this, &broker, link = broker.active, asked = hosts_.now()](const Result<v1::StateChanges>& answer) {
        if (link == broker.active && broker.part == Part::stands_by)
          followed(broker, link, asked, answer);
      });
}

void Pair::followed(Broker& broker, const Hosts::LinkPtr& link, TimePoint asked,
                    const Result<v1::StateChanges>& answer) {
  const bool is_news = answer && (answer->anew() || answer->entries_size() > 0 || broker.copying);
  const auto before = is_news ? kept(broker) : Kept{};
  const auto step = broker.standby->answered(answer, hosts_.now());
  broker.copying = step.next == StandbyCore::Step::Next::ask;
  if (is_news)
    check_copy(broker, before);
  if (answer && step.next == StandbyCore::Step::Next::ask_later && broker.standby->question().log() == answer->log()) {
    broker.copied_lineage = answer->lineage();
    broker.copied_term = broker.standby->question().term();
    broker.copied_at = asked;
  }
  if (step.next == StandbyCore::Step::Next::dial)
    return redial_active(broker, *step.why, true);
  const auto pause = step.next == StandbyCore::Step::Next::ask ? Duration{} : Duration{limits::follow_interval};
  hosts_.after(broker.process, pause, [this, &broker, link] {
    if (link == broker.active)
      follow(broker);
  });
}

void Pair::look(Broker& broker) {
  if (broker.part != Part::stands_by)
    return;
  const auto due = broker.standby->look(hosts_.now());
  if (due && !*due)
    return end(broker, due->error().message());
  if (!due)
    return hosts_.after(broker.process, 100ms, [this, &broker] { look(broker); });
  say(fmt::format("{} takes over: {}", broker.process.name, **due));
  ++coverage_["taken over"];
  check_takeover(broker, **due);
  if (broker.active != nullptr)
    hosts_.close(broker.active, broker.process);
  broker.active = nullptr;
  broker.standby.reset();
  serve(broker, true);
}

// -- serving --------------------------------------------------------------------------------------

void Pair::serve(Broker& broker, bool takes_over) {
  const auto since = hosts_.now().time_since_epoch().count();
  broker.claim = *begin_to_serve(*broker.file, takes_over, since, fmt::format("lineage {}", ++lineages_));
  broker.claim.set_address(broker.address);
  broker.lineage = role_in(*broker.file)->lineage;
  broker.feed = std::make_shared<StateFeed>(broker.file, ++logs_);
  broker.followers.emplace(broker.claim.term(), link_timeout);
  broker.part = Part::serves;
  broker.nodes.clear();
  broker.settles = true;
  broker.process.listens = true;
  hosts_.after(broker.process, limits::settle, [&broker] { broker.settles = false; });
  say(fmt::format("{} serves, term {}, {}", broker.process.name, broker.claim.term(), broker.lineage));
  if (other(broker).part == Part::serves)
    ++coverage_["two serve"];
  if (broker.standby_of || role_in(*broker.file)->other)
    tell_other(broker);
  work(broker);
}

void Pair::tell_other(Broker& broker) {
  auto& peer = other(broker);
  const auto again = [this, &broker] {
    hosts_.after(broker.process, hosts_.between(20ms, 1s), [this, &broker] { tell_other(broker); });
  };
  hosts_.dial(broker.process, peer.process, [this, &broker, &peer, again](const Hosts::LinkPtr& link) {
    if (link == nullptr)
      return again();
    link->of(broker.process).lost = again;
    hosts_.send(link, broker.process, [this, &peer, claim = broker.claim] { told(peer, claim); });
  });
}

void Pair::told(Broker& broker, const v1::TakenOver& claim) {
  if (broker.part != Part::serves || !gives_way(broker.claim, claim))
    return;
  broker.feed->put(StateSection::ids, std::string{standby_key}, claim.address());
  ++coverage_["given way"];
  end(broker, "the other broker serves this cluster, and has the later state");
}

void Pair::work(Broker& broker) {
  if (broker.part != Part::serves)
    return;
  const auto id = ++last_change_;
  broker.feed->put(StateSection::actors, id, std::to_string(id));
  if (broker.feed->commit())
    changes_.push_back({id, broker.lineage, broker.claim.term(), hosts_.now()});
  hosts_.after(broker.process, hosts_.between(50ms, 3s), [this, &broker] { work(broker); });
}

Result<v1::StateChanges> Pair::answer(Broker& broker, const v1::FollowState& question) {
  if (broker.part != Part::serves) {
    if (broker.standby)
      broker.standby->followed(question);
    return fail(Errc::stale_epoch, "the broker here stands by, and serves nobody");
  }
  GPUACTORS_LET(news, broker.followers->admit(question, hosts_.now()));
  if (news == Followers::News::another) {
    broker.feed->put(StateSection::ids, std::string{standby_key}, broker.followers->address());
    GPUACTORS_TRY(broker.feed->commit());
  }
  GPUACTORS_LET(changes, broker.feed->read(question));
  changes.set_lineage(broker.lineage);
  changes.set_settling(broker.settles);
  for (const auto& [name, link] : broker.nodes)
    changes.add_nodes(name);
  return changes;
}

void Pair::ask(Broker& from, Broker& to, const Hosts::LinkPtr& link, const v1::FollowState& question,
               std::function<void(Result<v1::StateChanges>)> done) {
  const auto answered = std::make_shared<bool>(false);
  hosts_.send(link, from.process, [this, &to, link, &from, question, answered, done] {
    auto said = answer(to, question);
    hosts_.send(link, to.process, [answered, done, said = std::move(said)] {
      if (!std::exchange(*answered, true))
        done(said);
    });
  });
  hosts_.after(from.process, link_timeout, [answered, done] {
    if (!std::exchange(*answered, true))
      done(fail(Errc::deadline_exceeded, "there was no answer"));
  });
}

} // namespace simulation
