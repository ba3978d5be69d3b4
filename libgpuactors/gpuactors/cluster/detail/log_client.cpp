#include <gpuactors/agent/log_sources.hpp>
#include <gpuactors/base/random_id.hpp>
#include <gpuactors/base/suggest.hpp>
#include <gpuactors/cluster/detail/log_client.hpp>
#include <gpuactors/cluster/detail/message_reply.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace gpuactors::detail {

namespace {

// How long one query waits for a line, how often the broker is asked where the actor is, and the pause before a retry.
constexpr std::chrono::seconds line_wait{1};
constexpr std::chrono::seconds look_every{2};
constexpr std::chrono::milliseconds retry_pause{300};

// Clocks of two nodes are assumed to differ by less.
constexpr std::chrono::seconds clock_skew{10};

// How soon a stop request is noticed.
constexpr std::chrono::milliseconds stop_slice{50};

TimePoint soon(Duration wait) {
  return deadline_after(Clock::now(), wait);
}

LogRecord to_record(LogLine line) {
  LogRecord record;
  auto source = parse_log_source(line.source);
  record.time = line.time;
  record.node = std::move(line.node);
  record.source = source.kind == LogSource::Kind::task ? std::move(line.source) : std::move(source.name);
  if (source.kind == LogSource::Kind::actor)
    record.actor = ActorId{source.id};
  record.stream = line.stream;
  record.text = std::move(line.text);
  return record;
}

} // namespace

LogClient::LogClient(ClusterCore& core, const Wanted& wanted, const LogsOptions& options, const LogSink& sink)
  : core_(core), name_(wanted.name), name_space_(wanted.name_space), options_(options), sink_(sink),
    started_(std::chrono::system_clock::now()), actor_(wanted.actor) {
  // nop
}

Result<void> LogClient::run() {
  auto outcome = locate_and_read();
  // Whoever has it stopped has what was wanted.
  return stopped() ? Result<void>{} : outcome;
}

Duration LogClient::longest_absence() const {
  return 2 * std::max<Duration>(core_.links()->options().timeout, limits::link_timeout);
}

Result<void> LogClient::locate_and_read() {
  GPUACTORS_LET(place, locate());
  // For an actor that has ended, all lines of the node have to be read first to find its last ones.
  if (options_.follow && !by_name_)
    return follow(std::move(place));
  GPUACTORS_TRY(read(place));
  return options_.follow ? follow(std::move(place)) : Result<void>{};
}

// -- where --------------------------------------------------------------------------------------------

Result<LogClient::Place> LogClient::locate() {
  auto reply = std::make_shared<MessageReply<v1::ClusterState>>();
  // While a node has lines to read, they come first.
  const auto wait = agent_ != nullptr ? Duration{limits::link_timeout} : longest_absence() / 2;
  core_.ask_broker(reply, soon(wait), v1::GetState{});
  GPUACTORS_LET(state, await(Future<v1::ClusterState>{reply}));
  return options_.node.empty() ? locate_actor(state) : locate_node(state);
}

Result<LogClient::Place> LogClient::locate_node(const v1::ClusterState& state) {
  if (!name_.empty() && !actor_ && !by_name_) {
    if (const auto* actor = find_actor(state); actor != nullptr)
      actor_ = ActorId{actor->id()};
    else
      by_name_ = true;
  }
  std::vector<std::string> names;
  for (const auto& entry : state.nodes()) {
    names.push_back(entry.node().name());
    if (entry.node().name() == options_.node)
      return Place{options_.node, entry.agent_address(), false};
  }
  return fail(Errc::not_found, fmt::format("there is no node \"{}\" in the cluster{}", options_.node,
                                           did_you_mean(options_.node, names)));
}

Result<LogClient::Place> LogClient::locate_actor(const v1::ClusterState& state) {
  if (const auto* actor = find_actor(state); actor != nullptr) {
    actor_ = ActorId{actor->id()};
    return Place{actor->lease().node(), actor->agent_address(), false};
  }
  // A restarted broker answers this request only once the nodes of the earlier broker are back.
  v1::FindActor message;
  if (actor_) {
    message.set_id(actor_.value());
  } else {
    message.set_name(name_);
    message.set_name_space(name_space_);
  }
  auto reply = std::make_shared<MessageReply<v1::ActorInfo>>();
  core_.ask_for_actor(reply, soon(2 * limits::settle), std::move(message));
  auto found = await(Future<v1::ActorInfo>{reply});
  if (found) {
    actor_ = ActorId{found->id()};
    return Place{found->lease().node(), found->agent_address(), false};
  }
  if (found.error().code() == Errc::actor_died)
    return Place{{}, {}, true};
  if (found.error().code() == Errc::not_found)
    return fail(Errc::not_found,
                found.error().message()
                    + "; what one that has ended wrote is with the node that it ran on: name that too");
  return fail(found.error());
}

const v1::ActorInfo* LogClient::find_actor(const v1::ClusterState& state) const {
  const auto found = std::find_if(state.actors().begin(), state.actors().end(), [this](const v1::ActorInfo& actor) {
    return actor_ ? actor.id() == actor_.value() : actor.name() == name_ && actor.name_space() == name_space_;
  });
  return found == state.actors().end() ? nullptr : &*found;
}

std::string LogClient::full_name() const {
  return name_.empty() ? std::to_string(actor_.value()) : to_string(ActorKey{name_, name_space_});
}

// -- the two ways to read ---------------------------------------------------------------------------

Result<void> LogClient::read(const Place& place) {
  if (place.node.empty())
    return fail(Errc::unavailable,
                fmt::format("actor {} is on no node now{}: what it wrote in earlier lives is with the "
                            "nodes that it ran on",
                            full_name(), place.over ? "" : " and waits for a place"));
  GPUACTORS_TRY(connect(place));
  begin(place.node, by_name_ ? limits::log_tail_lines : options_.count);
  keeps_ = by_name_;
  for (bool more = true; more && !stopped();) {
    auto lines = ask(false, Duration::zero());
    if (!lines && stopped())
      break;
    if (!lines)
      return fail(lines.error().code(),
                  fmt::format("the log of node {} cannot be read: {}", place.node, lines.error().message()));
    more = *lines > 0;
  }
  keeps_ = false;
  for (const auto& record : std::exchange(kept_, {}))
    done_ = done_ || !sink_(record);
  disconnect();
  return {};
}

Result<void> LogClient::follow(Place place) {
  auto look_at = soon(look_every);
  while (!stopped() && !place.over) {
    if (place.node.empty()) {
      pause(retry_pause);
      GPUACTORS_TRY(look(place));
      continue;
    }
    if (agent_ == nullptr || node_ != place.node) {
      if (auto connected = connect(place); !connected) {
        GPUACTORS_TRY(out_of_reach(connected.error()));
        pause(retry_pause);
        GPUACTORS_TRY(look(place));
        continue;
      }
      begin(place.node, options_.count);
    }
    if (auto lines = ask(true, line_wait); !lines) {
      if (stopped())
        break;
      GPUACTORS_TRY(out_of_reach(lines.error()));
      disconnect();
      pause(retry_pause);
      GPUACTORS_TRY(look(place));
      continue;
    }
    failing_since_.reset();
    if (Clock::now() < look_at)
      continue;
    GPUACTORS_TRY(look(place));
    look_at = soon(look_every);
    if (place.over || place.node != node_)
      drain();
  }
  return {};
}

Result<void> LogClient::look(Place& place) {
  auto found = locate();
  if (found) {
    if (found->node.empty())
      failing_since_.reset();
    place = std::move(*found);
    return {};
  }
  // A connected node keeps sending lines while the broker is out of reach.
  if (stopped() || (agent_ != nullptr && found.error().code() != Errc::not_found))
    return {};
  return out_of_reach(found.error());
}

Result<void> LogClient::out_of_reach(const Error& error) {
  if (stopped())
    return {};
  const auto now = Clock::now();
  if (!failing_since_) {
    failing_since_ = now;
    no_node_.reset();
  }
  // "There is no such node" says more than a failed connection.
  if (error.code() == Errc::not_found)
    no_node_ = error;
  // Other errors are permanent: not trusted, too many readers, no log.
  const bool passes = error.code() == Errc::unavailable || error.code() == Errc::worker_died
                      || error.code() == Errc::deadline_exceeded || error.code() == Errc::not_found;
  if (passes && now - *failing_since_ < longest_absence())
    return {};
  // The node existed when the reading began, so it is reported as out of reach.
  const auto& why = passes && no_node_ ? *no_node_ : error;
  const auto code = why.code() == Errc::not_found ? Errc::unavailable : why.code();
  return fail(code, fmt::format("the log cannot be followed: {}", why.message()));
}

void LogClient::drain() {
  const auto end = soon(look_every);
  constexpr std::chrono::milliseconds last_wait{200};
  while (agent_ != nullptr && !stopped() && Clock::now() < end) {
    const auto lines = ask(true, last_wait);
    if (!lines || *lines == 0)
      break;
  }
  disconnect();
}

// -- one node's agent ---------------------------------------------------------------------------------

Result<void> LogClient::connect(const Place& place) {
  disconnect();
  if (place.address.empty())
    return fail(Errc::unsupported, fmt::format("node {} does not say where its log can be read", place.node));
  GPUACTORS_LET(endpoint, parse_endpoint(place.address));
  auto state = std::make_shared<FutureState<caf::strong_actor_ptr>>();
  core_.links()->connect(endpoint, limits::connect_timeout,
                         [state](Result<caf::strong_actor_ptr> agent) { state->complete(std::move(agent)); });
  auto agent = await(Future<caf::strong_actor_ptr>{state});
  if (!agent)
    return fail(agent.error().code(),
                fmt::format("node {} cannot be reached: {}", place.node, agent.error().message()));
  agent_ = std::move(*agent);
  lost_ = core_.agent_watches().watch(core_.port(), agent_, gone());
  return {};
}

void LogClient::disconnect() {
  agent_ = nullptr;
}

Error LogClient::gone() const {
  return Error{Errc::unavailable, "the connection to the node is lost"};
}

void LogClient::begin(const std::string& node, std::size_t count) {
  reader_ = random_id();
  node_ = node;
  count_ = count;
  asked_ = Clock::now();
  skipped_ = 0;
  resume_.reset();
  if (const auto known = shown_.find(node); known != shown_.end()) {
    resume_ = known->second;
  } else if (std::exchange(begun_, true)) {
    // The actor has come from another node: its lines of earlier lives on this node are not wanted.
    auto newest = started_;
    for (const auto& [other, shown] : shown_)
      newest = std::max(newest, shown.time);
    resume_ = Shown{newest - clock_skew, 0};
  }
  begun_ = true;
  if (resume_)
    count_ = limits::log_tail_lines;
}

Result<std::size_t> LogClient::ask(bool follow, Duration wait) {
  // The node forgets a reader that has not asked for long, so this one begins again.
  if (Clock::now() - asked_ > limits::log_reader_idle / 2)
    begin(node_, count_);
  v1::ReadLog message;
  message.set_reader(reader_);
  message.set_actor(actor_.value());
  message.set_count(count_);
  message.set_follow(follow);
  message.set_wait_ms(to_milliseconds(wait));
  auto reply = std::make_shared<MessageReply<v1::LogLines>>();
  core_.port().ask(reply, agent_, soon(wait + longest_absence()), std::move(message));
  if (*lost_) // the connection was lost before this request was entered, so nothing else would fail it
    core_.port().fail_receiver(caf::actor_cast<caf::actor_addr>(agent_), gone());
  auto lines = await(Future<v1::LogLines>{reply});
  if (!lines) // the agent may have ended while the connection still existed
    return fail(lines.error().code() == Errc::actor_died ? gone() : std::move(lines).error());
  show(*lines);
  asked_ = Clock::now();
  return static_cast<std::size_t>(lines->lines_size()) + (lines->dropped() > 0 ? 1 : 0);
}

void LogClient::show(const v1::LogLines& lines) {
  if (lines.dropped() > 0) {
    const LogLine note{std::chrono::floor<std::chrono::microseconds>(std::chrono::system_clock::now()), node_, "log",
                       OutputStream::err,
                       fmt::format("{} lines are missing: they were not read in time", lines.dropped())};
    done_ = done_ || !sink_(to_record(note));
  }
  for (const auto& entry : lines.lines()) {
    if (done_)
      return;
    LogLine line;
    line.time = LogTime{std::chrono::duration_cast<LogTime::duration>(std::chrono::nanoseconds{entry.time_ns()})};
    line.node = entry.node();
    line.source = entry.source();
    line.stream = entry.stream() == to_string(OutputStream::err) ? OutputStream::err : OutputStream::out;
    line.text = entry.text();
    show(std::move(line));
  }
}

void LogClient::show(LogLine line) {
  if (!is_new(line))
    return;
  auto& shown = shown_[node_];
  shown.at_time = shown.time == line.time ? shown.at_time + 1 : 1;
  shown.time = line.time;
  auto record = to_record(std::move(line));
  if (by_name_ && (!record.actor || record.source != full_name()))
    return;
  if (!keeps_) {
    done_ = !sink_(record);
    return;
  }
  kept_.push_back(std::move(record));
  if (kept_.size() > options_.count)
    kept_.pop_front();
}

bool LogClient::is_new(const LogLine& line) {
  if (!resume_)
    return true;
  if (line.time < resume_->time || (line.time == resume_->time && skipped_++ < resume_->at_time))
    return false;
  if (line.time > resume_->time)
    resume_.reset();
  return true;
}

// -- waiting --------------------------------------------------------------------------------------------

template <class Message>
Result<Message> LogClient::await(Future<Message> future) {
  while (!future.state()->wait_until(soon(stop_slice)))
    if (stopped())
      return fail(Errc::cancelled, "the reading was stopped");
  return future.get();
}

void LogClient::pause(Duration time) const {
  FutureState<bool> nothing;
  for (const auto end = soon(time); Clock::now() < end && !stopped();)
    nothing.wait_until(std::min(end, soon(stop_slice)));
}

bool LogClient::stopped() const {
  return done_ || options_.stop.stop_requested();
}

} // namespace gpuactors::detail
