// The broker and actors: their records, from the request to the end of the last life.
#include <gpuactors/actor/holder_name.hpp>
#include <gpuactors/base/suggest.hpp>
#include <gpuactors/base/utf8.hpp>
#include <gpuactors/broker/core/broker_core.hpp>
#include <gpuactors/broker/core/printable.hpp>
#include <gpuactors/broker/core/requests.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace gpuactors {

namespace {

std::string describe(const v1::ActorHandle& handle) {
  return detail::actor_in_words(handle.name(), handle.type(), ActorId{handle.id()});
}

/// Whether the actor that has the handle's number here is another one. Programs of earlier releases draw no origins.
bool is_of_elsewhere(const v1::ActorHandle& handle, std::uint64_t origin) {
  return handle.origin() != 0 && origin != 0 && handle.origin() != origin;
}

/// The answer to who waits for its end: no more of it than that takes, for many may wait.
FoundActor as_ended(const v1::ActorInfo& actor, Errc code, std::string reason) {
  FoundActor found;
  found.info.set_id(actor.id());
  found.info.set_name(actor.name());
  found.info.set_name_space(actor.name_space());
  found.info.set_type(actor.type());
  found.info.set_origin(actor.origin());
  found.info.set_restarts(actor.restarts());
  found.info.set_state("ended");
  found.info.set_end_error(static_cast<std::uint32_t>(code));
  found.info.set_end_reason(std::move(reason));
  return found;
}

/// The lease of its life; none: it has none now.
LeaseId life_of(const ActorRecord& record) {
  return LeaseId{record.lease ? record.lease->id() : 0};
}

Result<void> check_shown(const v1::ActorHandle& handle) {
  GPUACTORS_TRY(check_shown_name("the actor that is referred to", handle.name()));
  return check_shown_name("the type of the actor that is referred to", handle.type());
}

Error of_elsewhere(const v1::ActorHandle& handle) {
  return Error{Errc::not_found,
               fmt::format("{} is not in this cluster: another actor has its number here, so it was spawned in another "
                           "cluster",
                           describe(handle))};
}

} // namespace

// -- requests of clients --------------------------------------------------------------------------

Result<void> BrokerCore::check_names(const v1::SpawnActor& message) {
  GPUACTORS_TRY(check_shown_name("the actor", message.spec().name()));
  GPUACTORS_TRY(check_shown_name("the actor's name space", message.spec().name_space()));
  GPUACTORS_TRY(check_shown_name("the actor's lease", message.request().name()));
  GPUACTORS_TRY(type_of(actor_kind, message.spec().type()));
  return {};
}

Result<void> BrokerCore::check_names(const v1::FindActor& message) {
  GPUACTORS_TRY(check_shown_name("the actor", message.name()));
  GPUACTORS_TRY(check_shown_name("the actor's name space", message.name_space()));
  return check_shown(message.handle());
}

Result<void> BrokerCore::check_names(const v1::KillActor& message) {
  GPUACTORS_TRY(check_shown_name("the actor", message.name()));
  GPUACTORS_TRY(check_shown_name("the actor's name space", message.name_space()));
  return check_shown(message.handle());
}

void BrokerCore::spawn_actor(const v1::SpawnActor& message, const Caller& caller, const Payload& config,
                             FindAnswer answer) {
  if (clients_.count(message.client()) == 0)
    return answer.deliver(fail(Errc::unavailable, "the broker does not know the client: its connection was lost"));
  // The client repeats a request whose answer was lost.
  const ClientRequest key{message.client(), message.client_request()};
  if (auto* known = actors_.spawned_for(key); known != nullptr)
    return answer_with(*known, std::move(answer), message.client());
  if (auto checked = check_names(message); !checked)
    return answer.deliver(fail(checked.error()));
  const FullName name{message.spec().name_space(), message.spec().name()};
  if (auto* taken = name.second.empty() ? nullptr : actors_.find(name); taken != nullptr) {
    auto& record = *taken;
    // Its program has ended, say, and the next one is there before its destructor is done.
    if (record.state == ActorState::stopping && record.no_restart && !record.stuck) {
      give_up_heir(key); // one that is repeated, because its answer was lost
      const auto until = until_after(message.request().queue_timeout_ms());
      record.until_name_free.push_back({message, caller, config, std::move(answer), until});
      return remind({until, record.id});
    }
    if (!message.get_if_exists() || record.spec.type() != message.spec().type())
      return answer.deliver(
          fail(Errc::already_exists,
               fmt::format("there is an actor named \"{}\" already{}", name.second,
                           message.get_if_exists() ? ", of type " + record.spec.type() : std::string{})));
    record.shared = true;
    return answer_with(record, std::move(answer), message.client());
  }
  // What a store keeps has all names. Who wants a new actor in any case gets it: most brokers have had none before
  // them.
  if (settling_ && !keeper_.keeps() && message.get_if_exists())
    return early_.keep(EarlyCalls::Spawn{message, caller, config, std::move(answer)});
  ActorRecord record;
  record.spec = message.spec();
  if (auto checked = check_spawner(record.spec, record.spec.detached(), caller); !checked)
    return answer.deliver(fail(checked.error()));
  auto place = rooms_.enter(caller, message.ByteSizeLong() + config.wire_size());
  if (!place)
    return answer.deliver(fail(place.error()));
  record.place = std::move(*place);
  record.id = ActorId{++last_actor_};
  record.spec.set_owner(caller.name);
  record.config = config;
  record.request = message.request();
  set_owner(record.request, caller);
  record.client = message.client();
  record.client_request = message.client_request();
  if (record.request.name().empty())
    record.request.set_name(name.second.empty() ? fmt::format("{}-{}", record.spec.type(), record.id.value())
                                                : name.second);
  record.until_alive.add(std::move(answer), message.client(), never, world_.now());
  offspring_.add(spawner_of(record.spec.spawner()), record.id);
  auto& kept = actors_.add(std::move(record));
  keep(kept);
  submit_actor(kept);
}

void BrokerCore::give_up_late_heirs(ActorRecord& record) {
  const auto late = std::stable_partition(record.until_name_free.begin(), record.until_name_free.end(),
                                          [now = world_.now()](const NameWaiter& spawn) { return spawn.until > now; });
  for (auto spawn = late; spawn != record.until_name_free.end(); ++spawn)
    spawn->answer.deliver(
        fail(Errc::no_capacity, fmt::format("the actor named \"{}\" is ending, and had not ended when "
                                            "the time to wait was over",
                                            record.spec.name())));
  record.until_name_free.erase(late, record.until_name_free.end());
}

bool BrokerCore::give_up_heir(const ClientRequest& key) {
  for (auto& [id, record] : actors_) {
    const auto spawn =
        std::find_if(record.until_name_free.begin(), record.until_name_free.end(), [&](const NameWaiter& waiting) {
          return ClientRequest{waiting.message.client(), waiting.message.client_request()} == key;
        });
    if (spawn == record.until_name_free.end())
      continue;
    spawn->answer.deliver(fail(Errc::cancelled, "the request was withdrawn"));
    record.until_name_free.erase(spawn);
    return true;
  }
  return false;
}

void BrokerCore::answer_with(ActorRecord& record, FindAnswer answer, ClientId client, TimePoint until) {
  if (record.state == ActorState::alive)
    answer.deliver(FoundActor{info_of(record), record.contacts});
  else
    record.until_alive.add(std::move(answer), client, until, world_.now());
}

void BrokerCore::find(const v1::FindActor& message, FindAnswer answer) {
  if (auto checked = check_names(message); !checked)
    return answer.deliver(fail(checked.error()));
  // It may wait for months: as long as its client is there.
  if (message.until_ended() && clients_.count(message.client()) == 0)
    return answer.deliver(fail(Errc::unavailable, "the broker does not know the client: its connection was lost"));
  if (auto* record = find_record({message.name_space(), message.name()}, message.id())) {
    if (message.has_handle() && is_of_elsewhere(message.handle(), record->spec.origin()))
      return answer.deliver(fail(of_elsewhere(message.handle())));
    if (message.only_who())
      return answer.deliver(FoundActor{info_of(*record), {}});
    if (message.until_ended())
      return record->until_ended.add(std::move(answer), message.client(), until_after(message.limit_ms()),
                                     world_.now());
    // A call that looks its actor up again has no new user.
    // A client may guess a number, but not its origin.
    const bool knows =
        message.has_handle() && message.handle().origin() != 0 && message.handle().origin() == record->spec.origin();
    record->shared = record->shared || !message.name().empty() || knows;
    return answer_with(*record, std::move(answer), message.client(), until_after(message.limit_ms()));
  }
  if (may_come_back(message.name(), message.id())) {
    early_.keep(EarlyCalls::Find{message, std::move(answer), until_after(message.limit_ms())}, world_.now());
    return;
  }
  if (message.until_ended())
    return answer.deliver(end_of(message));
  if (message.has_handle())
    return answer.deliver(fail(Errc::not_found, why_not_there(message.handle())));
  if (message.name().empty())
    return answer.deliver(fail(Errc::actor_died, ended_.how_ended(message.id())));
  answer.deliver(fail(no_actor(message.name_space(), message.name())));
}

Error BrokerCore::no_actor(const std::string& name_space, const std::string& name) const {
  if (const auto* last = ended_.find(name_space, name))
    return Error{Errc::not_found,
                 fmt::format("there is no actor named \"{}\" any more: it has ended: {}", name, last->reason())};
  // Comparing takes time that others wait for.
  constexpr std::size_t most_compared = 256;
  return Error{Errc::not_found, fmt::format("there is no actor named \"{}\"{}", name,
                                            did_you_mean(name, actors_.names_in(name_space, most_compared)))};
}

std::string BrokerCore::why_not_there(const v1::ActorHandle& handle) const {
  if (const auto* ended = ended_.find(handle.id()))
    return is_of_elsewhere(handle, ended->actor().origin()) ? of_elsewhere(handle).message()
                                                            : ended_.how_ended(handle.id());
  return fmt::format("{} is not in this cluster: it has ended long ago, or was spawned in another cluster",
                     describe(handle));
}

Result<FoundActor> BrokerCore::end_of(const v1::FindActor& message) const {
  const auto* ended =
      message.name().empty() ? ended_.find(message.id()) : ended_.find(message.name_space(), message.name());
  const auto& handle = message.handle();
  if (ended != nullptr && !is_of_elsewhere(handle, ended->actor().origin()))
    return as_ended(ended->actor(), errc_from_number(ended->error()), ended->reason());
  if (!message.name().empty())
    return fail(no_actor(message.name_space(), message.name()));
  // Of one that an earlier broker has started, and of which nothing is known, a node may bring back a life that goes
  // on.
  const auto id = message.id();
  const bool is_over =
      ended == nullptr && (forgotten_.contains(ActorId{id}) || (options_.last_id < id && id <= last_actor_));
  if (!is_over)
    return fail(Errc::not_found, why_not_there(handle));
  v1::ActorInfo actor;
  actor.set_id(id);
  actor.set_name(handle.name());
  actor.set_type(handle.type());
  return as_ended(actor, Errc::not_found, ended_.how_ended(id));
}

bool BrokerCore::may_come_back(const std::string& name, std::uint64_t id) const {
  // Ids above `last_id` were issued by this broker: no node can bring such an actor back.
  return settling_ && (!name.empty() || id <= options_.last_id);
}

void BrokerCore::answer_early() {
  for (auto& call : early_.take_types())
    types(call.message, std::move(call.answer));
  for (auto& call : early_.take_kills()) {
    const auto& message = call.message;
    // An actor of that name that was spawned since is not the one to kill.
    const auto* found = find_record({message.name_space(), message.name()}, message.id());
    if (found == nullptr || found->id.value() <= options_.last_id)
      kill(message, call.caller, std::move(call.answer));
    else if (settling_)
      early_.keep(std::move(call));
    else
      call.answer.deliver(fail(no_actor(message.name_space(), message.name())));
  }
  for (auto& call : early_.take_spawns())
    spawn_actor(call.message, call.caller, call.config, std::move(call.answer));
  const auto now = world_.now();
  for (auto& call : early_.take_finds(now)) {
    if (call.until != never)
      call.message.set_limit_ms(to_milliseconds(call.until - now));
    find(call.message, std::move(call.answer));
  }
}

TimePoint BrokerCore::until_after(std::uint64_t limit_ms) const {
  return limit_ms == 0 ? never : deadline_after(world_.now(), from_milliseconds(limit_ms));
}

void BrokerCore::kill(const v1::KillActor& message, const Caller& caller, DoneAnswer answer) {
  answer = keeper_.when_kept(std::move(answer));
  if (auto checked = check_names(message); !checked)
    return answer.deliver(std::move(checked));
  const ClientRequest key{message.client(), message.client_request()};
  const auto* known = kills_.find(key);
  auto* record =
      known != nullptr ? actors_.find(known->actor) : find_record({message.name_space(), message.name()}, message.id());
  // The client repeats a request whose answer was lost: its life has ended, and neither the next one nor the next actor
  // of that name is to.
  if (known != nullptr && (record == nullptr || life_of(*record) == LeaseId{} || life_of(*record) != known->lease))
    return answer.deliver({});
  if (record == nullptr) {
    if (may_come_back(message.name(), message.id()))
      early_.keep(EarlyCalls::Kill{message, caller, std::move(answer)});
    else if (message.again())
      answer.deliver({});
    else if (message.has_handle())
      answer.deliver(fail(Errc::not_found, why_not_there(message.handle())));
    else
      answer.deliver(fail(message.name().empty()
                              ? Error{Errc::not_found, fmt::format("there is no actor {}", message.id())}
                              : no_actor(message.name_space(), message.name())));
    return;
  }
  if (message.has_handle() && is_of_elsewhere(message.handle(), record->spec.origin()))
    return answer.deliver(fail(of_elsewhere(message.handle())));
  if (auto permitted = check_owner(caller, fmt::format("actor {}", record->request.name()), record->spec.owner());
      !permitted)
    return answer.deliver(std::move(permitted));
  if (message.from_lease() != 0 && record->lease && record->lease->id() == message.from_lease())
    return answer.deliver(fail(Errc::invalid_argument,
                               fmt::format("actor {} would wait for its own end: an actor ends itself by Actor::end",
                                           record->request.name())));
  // Whether there is a life to end is known when its node has come, or had its time.
  if (record->state == ActorState::returning && settling_ && !message.no_restart())
    return early_.keep(EarlyCalls::Kill{message, caller, std::move(answer)});
  kills_.add(key, {record->id, life_of(*record)});
  // An actor between two lives is dead already: a kill that permits restarts only cuts its pause short.
  const bool has_begun = record->lives.restarts() > 0 || record->had_life;
  const bool between =
      record->state == ActorState::pausing
      || (has_begun && (record->state == ActorState::waiting || record->state == ActorState::returning));
  if (between && !message.no_restart() && !record->no_restart) {
    answer.deliver({});
    if (record->state == ActorState::pausing) {
      stop_reminding(*record);
      submit_actor(*record);
    }
    return;
  }
  record->until_killed.push_back(std::move(answer));
  record->no_restart = record->no_restart || message.no_restart();
  kill(*record, message.grace_ms(), caller.name.empty() ? "it was killed" : "it was killed by " + caller.name);
}

void BrokerCore::kill(ActorRecord& record, std::uint64_t grace_ms, std::string why) {
  if (record.state == ActorState::returning)
    return forget_actor(record.id, Error{Errc::cancelled, why + ", before its node came back"});
  if (record.state == ActorState::pausing)
    return forget_actor(record.id, Error{Errc::cancelled, why + ", before it was started again"});
  if (record.state == ActorState::waiting) {
    const auto id = record.id;
    withdraw_from_queue(record, "kill");
    forget_actor(id, Error{Errc::cancelled, why + ", before it was placed"});
    return;
  }
  if (const auto* lease = ledger_.lease_of(record.waiting_for); lease != nullptr) {
    record.state = ActorState::stopping;
    // Who wants the end for good overrules who wants another life elsewhere.
    if (record.end_reason.empty() || record.no_restart)
      record.end_reason = std::move(why);
    if (record.no_restart && record.stored)
      keep(record);
    tell_agent_to_end(*lease, grace_ms);
  }
}

void BrokerCore::stuck(const v1::LeaseStuck& message) {
  auto* const actor = actors_.holder_of(LeaseId{message.lease()});
  if (actor == nullptr || actor->lease->epoch() != message.epoch())
    return;
  log_.add(EventKind::stuck, actor->request.name(), message.text());
  // It may never end; what it has besides the lost device stays taken.
  if (actor->lost)
    return leave_lost(LeaseId{message.lease()});
  for (auto& waiting : actor->until_killed)
    waiting.deliver(fail(Errc::deadline_exceeded, message.text()));
  actor->until_killed.clear();
  actor->stuck = actor->state == ActorState::stopping;
  for (auto& spawn : std::exchange(actor->until_name_free, {}))
    spawn.answer.deliver(
        fail(Errc::already_exists, fmt::format("there is an actor named \"{}\" already, which does not "
                                               "end: {}",
                                               actor->spec.name(), message.text())));
}

// -- lives ----------------------------------------------------------------------------------------

void BrokerCore::submit_actor(ActorRecord& record) {
  actors_.wait(record, RequestId{++last_request_});
  auto request = request_for(record);
  // A restarted actor waits for nodes as long as it takes: its own may come back, or another one may join. So does one
  // that an earlier broker knew.
  const bool had_place = record.lives.restarts() > 0 || record.stored_lease != LeaseId{};
  if (request && had_place)
    request->queue_timeout.reset();
  if (request && (had_place || record.lives.lived()))
    request->wait_for_nodes = true;
  if (!request) {
    forget_actor(record.id, request.error());
    return;
  }
  apply(ledger_.submit(record.waiting_for, std::move(*request), world_.now()));
}

v1::StartActor BrokerCore::order_of(const ActorRecord& record) {
  v1::StartActor order;
  order.set_actor(record.id.value());
  *order.mutable_spec() = record.spec;
  order.set_restarts(record.lives.restarts());
  order.set_forgiven(record.lives.forgiven());
  order.set_moves(record.lives.moves());
  *order.mutable_request() = record.request;
  order.set_client(record.client);
  order.set_client_request(record.client_request);
  order.set_saved_type(record.saved_type);
  order.set_saved(record.saved);
  return order;
}

void BrokerCore::start_actor(const Lease& lease, ActorRecord& record) {
  record.state = ActorState::starting;
  record.end_reason.clear();
  actors_.hold(record, to_wire(lease));
  keep(record);
  auto order = order_of(record);
  *order.mutable_lease() = *record.lease;
  if (const auto& agent = nodes_.at(lease.node).agent)
    world_.post(agent, std::move(order), record.config);
  limit_first_start(record);
}

void BrokerCore::limit_first_start(ActorRecord& record) {
  // The limit covers all attempts: an actor that crashes in its constructor again and again does not start either.
  if (record.spec.spawn_timeout_ms() == 0 || record.lives.lived() || record.first_start_by)
    return;
  record.first_start_by = deadline_after(world_.now(), from_milliseconds(record.spec.spawn_timeout_ms()));
  remind({*record.first_start_by, record.id});
}

void BrokerCore::actor_started(ActorRecord& actor, const v1::LeaseStarted& message, HolderContacts contacts) {
  if (actor.state != ActorState::starting)
    return;
  actor.state = ActorState::alive;
  actor.lives.began(world_.now());
  stop_reminding(actor);
  actor.pid = message.pid();
  actor.address = message.address();
  actor.contacts = std::move(contacts);
  keep(actor);
  *log_.add(EventKind::spawned, actor.request.name()).mutable_lease() = *actor.lease;
  actor.until_alive.answer([&] { return FoundActor{info_of(actor), actor.contacts}; });
}

void BrokerCore::actor_down(ActorRecord& record, const Error& said, LifeEnd why) {
  // First: a name among them is taken by their next ones, in the next life.
  if (record.lease)
    end_offspring(LeaseId{record.lease->id()}, fmt::format("actor {}", record.request.name()));
  const auto error = record.own_end.value_or(said);
  record.last = info_of(record);
  *record.last->mutable_metrics() = record.usage.metrics();
  record.contacts = {};
  record.address.clear();
  record.pid = 0;
  record.usage.Clear();
  record.stuck = false;
  actors_.let_go(record);
  record.strayed = record.strayed || why == LifeEnd::lost_place;
  const RestartRule rule{record.spec.max_restarts(), from_milliseconds(record.spec.restart_window_ms())};
  std::optional<Duration> next_life;
  if (!record.no_restart)
    next_life = record.lives.end(rule, why, world_.now());
  const auto kind = next_life ? EventKind::restarting : EventKind::died;
  auto reason = error.message();
  if (next_life && !record.next && *next_life > Duration::zero())
    reason = fmt::format("{}; the next start is in {:.1f} s", head_of(reason, limits::end_reason_bytes / 2),
                         to_seconds(*next_life));
  log_.add(kind, record.request.name(), reason);
  log_.count(fmt::format("{}/{}", to_string(kind), to_string(error.code())));
  if (!next_life) {
    forget_actor(record.id, error);
    return;
  }
  keep(record);
  for (auto& waiting : record.until_killed)
    waiting.deliver({});
  record.until_killed.clear();
  if (const auto next = actors_.take_next(record)) {
    record.waiting_for = next->request;
    start_actor(*next, record);
    return;
  }
  if (*next_life == Duration::zero())
    return submit_actor(record);
  pause_actor(record, *next_life);
}

void BrokerCore::pause_actor(ActorRecord& record, Duration pause) {
  record.state = ActorState::pausing;
  record.due = deadline_after(world_.now(), pause);
  remind({*record.due, record.id});
}

void BrokerCore::actor_due(ActorRecord& record) {
  const bool late = record.first_start_by && world_.now() >= *record.first_start_by;
  if (!late) {
    record.due.reset();
    if (record.state == ActorState::pausing)
      submit_actor(record);
    return;
  }
  stop_reminding(record);
  const Error error{Errc::deadline_exceeded,
                    fmt::format("the actor's constructor was not done {} ms after a node was first told to start it; "
                                "what there is of it is asked to stop",
                                record.spec.spawn_timeout_ms())};
  record.until_alive.answer([&] { return fail(error); });
  record.no_restart = true;
  if (record.state != ActorState::stopping)
    kill(record, stop_grace_ms, error.message());
}

void BrokerCore::forget_actor(ActorId id, const Error& error) {
  auto removed = actors_.remove(id);
  if (removed.empty())
    return;
  auto& record = removed.mapped();
  stop_reminding(record);
  give_up_move(record);
  auto& ended = ended_.add();
  *ended.mutable_actor() = record.last ? std::move(*record.last) : info_of(record);
  ended.set_unix_ns(world_.unix_ns());
  ended.set_error(static_cast<std::uint32_t>(error.code()));
  ended.set_reason(std::string{head_of(error.message(), limits::kept_reason_bytes)});
  offspring_.remove(spawner_of(record.spec.spawner()), id);
  if (id.value() <= options_.last_id)
    forgotten_.insert(id);
  // Only of what this broker has spawned itself are all lives known.
  if (record.strayed || record.lives.restarts() > 0 || id.value() <= options_.last_id)
    keeper_.bury(id);
  if (record.stored || record.spec.detached() || !record.spec.name().empty())
    keeper_.erase(StateSection::actors, id.value());
  record.until_alive.answer([&] { return fail(error); });
  record.until_ended.answer([&] { return as_ended(ended.actor(), error.code(), ended.reason()); });
  for (auto& waiting : record.until_killed)
    waiting.deliver({});
  for (auto& spawn : record.until_name_free)
    spawn_actor(spawn.message, spawn.caller, spawn.config, std::move(spawn.answer));
}

ActorRecord* BrokerCore::find_record(const FullName& name, std::uint64_t id) {
  return name.second.empty() ? actors_.find(ActorId{id}) : actors_.find(name);
}

v1::ActorInfo BrokerCore::info_of(const ActorRecord& record) const {
  v1::ActorInfo info;
  info.set_id(record.id.value());
  info.set_name(record.spec.name());
  info.set_name_space(record.spec.name_space());
  info.set_type(record.spec.type());
  switch (record.state) {
  case ActorState::returning:
    info.set_state("returning");
    break;
  case ActorState::pausing:
    info.set_state("restarting");
    break;
  case ActorState::waiting:
    info.set_state("waiting");
    break;
  case ActorState::starting:
    info.set_state("starting");
    break;
  case ActorState::alive:
    info.set_state("alive");
    break;
  case ActorState::stopping:
    info.set_state("stopping");
    break;
  }
  info.set_restarts(record.lives.restarts());
  info.set_forgiven(record.lives.forgiven_so_far());
  info.set_moves(record.lives.moves_so_far());
  info.set_owner(record.spec.owner());
  info.set_origin(record.spec.origin());
  if (const auto* spawner = ledger_.find_lease(LeaseId{record.spec.spawner().lease()}); spawner != nullptr)
    info.set_spawned_by(spawner->name);
  if (record.lease)
    *info.mutable_lease() = *record.lease;
  info.set_pid(record.pid);
  info.set_address(record.address);
  info.set_max_pending_calls(record.spec.max_pending_calls());
  info.set_max_task_retries(record.spec.max_task_retries());
  info.set_detached(record.spec.detached());
  info.set_max_restarts(record.spec.max_restarts());
  info.set_memory_used_bytes(record.usage.memory_bytes());
  info.set_calls(record.usage.calls());
  if (const auto node = nodes_.find(info.lease().node()); node != nodes_.end())
    info.set_agent_address(node->second.node.address());
  return info;
}

} // namespace gpuactors
