#include <gpuactors/wire/transport.hpp>
#include <gpuactors/wire/transport/channel.hpp>
#include <gpuactors/wire/transport/retry_pause.hpp>

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <climits>
#include <condition_variable>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace gpuactors {

using detail::Descriptor;
using transport::Answer;
using transport::Channel;
using transport::decode_answer;
using transport::Frame;
using transport::Passed;
using transport::Request;
using transport::Signal;
using transport::Status;
using transport::TlsContext;
using transport::TlsPeer;

namespace {

/// Returns the limit of descriptor numbers for mapped regions. The lowest free number is assigned first, so half of the
/// process's descriptors remain for other uses.
int descriptors_for_regions() {
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  return static_cast<int>(std::min<rlim_t>(files.rlim_cur / 2, INT_MAX));
}

// Longest time after which the mappings of an ended server are released.
constexpr std::chrono::seconds look_around{1};
constexpr std::chrono::milliseconds shortest_pause{1};
// Between attempts to get a place at a server that has none, and how long it may have none.
constexpr Duration first_wait = std::chrono::milliseconds{20};
constexpr Duration longest_wait = std::chrono::milliseconds{500};
constexpr std::chrono::minutes longest_without_place{1};
// More bytes than any host has: a made-up size must not overflow the computed time limit.
constexpr std::uint64_t most_gathered = 1ULL << 44;

/// A connection and its state.
struct Line {
  Channel channel;
  bool local = false;
  /// Whether the last answer was read completely, so that the connection can be reused.
  bool intact = false;
  TimePoint since;
  /// Nobody in particular but with TLS.
  TlsPeer peer = {};

  /// Whether a kept connection is of no use any more.
  [[nodiscard]] bool is_over() {
    return channel.is_stale() || peer.is_revoked();
  }
};

/// One fetch.
struct Fetch {
  const BulkAddress& address;
  std::uint64_t id;
  std::uint64_t bytes;
  TimePoint deadline;
  /// The hand-over to report to the server when the region has arrived; 0 means none.
  std::uint64_t hand_over = 0;
  /// Opens the region on a device; may be empty.
  OpenDevice open = {};
  /// Whether to report the hand-over only, without a transfer.
  bool arrived = false;
  /// Bytes received so far, for error texts.
  std::size_t done = 0;
  /// Whether somebody has taken the latest connection, and whether the server has answered.
  bool reached = false;
  bool answered = false;
  /// Whether to map the region if possible.
  bool maps = true;

  /// Converts an error of a connection to one of this fetch.
  [[nodiscard]] Failure failure(const Error& error) const {
    auto code = error.code();
    // Either the caller's deadline or the peer's time limit may have passed.
    if (code == Errc::deadline_exceeded && Clock::now() < deadline)
      return fail(Errc::unavailable, text("the process that keeps it stands still: it did not answer in time"));
    return fail(code, text(code == Errc::deadline_exceeded ? "the deadline has passed" : error.message()));
  }

  [[nodiscard]] std::string text(std::string_view why) const {
    return fmt::format("tensor {} of {}: {} ({} of {} bytes had come)", id, to_string(address), why, done, bytes);
  }
};

/// Connections to one server.
struct Peer {
  /// The server's number, under which `MappedRegions` keeps its mappings.
  std::uint64_t server = 0;
  std::vector<Line> idle;
  /// Fetches that refer to this entry, and the number of them that run.
  std::size_t users = 0;
  std::size_t running = 0;
};

} // namespace

class BulkClient::Impl {
public:
  Impl(BulkClientOptions options, std::optional<TlsContext> tls, Signal stop)
    : options_(std::move(options)), tls_(std::move(tls)), stop_(std::move(stop)) {
    if (options_.pool == nullptr)
      options_.pool = RegionPool::create();
  }

  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  ~Impl() {
    close();
  }

  Result<void> start();
  Result<SharedRegion> fetch(Fetch job);
  [[nodiscard]] std::size_t idle_connections() const;
  void close();

private:
  using Lock = std::unique_lock<std::mutex>;
  using Peers = std::map<std::string, Peer>;

  /// Waits until the fetch may run.
  Result<void> enter(Peer& peer, const Fetch& job, Lock& lock);
  Result<SharedRegion> run(Peer& peer, Fetch& job);
  std::optional<Line> take_idle(Peer& peer);
  void give_back(Peer& peer, Line line);
  void drop_old();
  void keep();

  Result<Line> connect(Fetch& job);
  Result<Line> connect_remote(Fetch& job, TimePoint until);
  /// Runs the fetch over a new connection.
  Result<SharedRegion> run_anew(Peer& peer, Fetch& job);
  /// Fetches the region over this connection, and reports its arrival.
  Result<SharedRegion> use(Line& line, Fetch& job);
  Result<SharedRegion> transfer(Line& line, Fetch& job);
  Result<SharedRegion> map(Line& line, Fetch& job, Passed passed);
  Result<SharedRegion> open(Line& line, Fetch& job, Passed passed);
  Result<SharedRegion> receive(Line& line, Fetch& job);

  BulkClientOptions options_;
  std::optional<TlsContext> tls_;
  Signal stop_;
  const std::shared_ptr<MappedRegions> mapped_ = MappedRegions::create();
  const int descriptors_most_ = descriptors_for_regions();
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Peers by address as text, guarded by `mutex_`. An entry stays while a fetch refers to it.
  Peers peers_;
  std::size_t running_ = 0;
  std::condition_variable looks_;
  std::mutex closing_;
  std::thread keeper_;
};

// -- turns and kept connections -------------------------------------------------------------------

Result<void> BulkClient::Impl::enter(Peer& peer, const Fetch& job, Lock& lock) {
  const auto may_go = [&] { return stop_.is_set() || peer.running < limits::bulk_streams; };
  if (job.deadline == never)
    changed_.wait(lock, may_go);
  else if (!changed_.wait_until(lock, job.deadline, may_go))
    return fail(Errc::deadline_exceeded, job.text("the deadline has passed while other fetches ran"));
  if (stop_.is_set())
    return fail(Errc::cancelled, job.text("the client is closed"));
  return {};
}

void BulkClient::Impl::drop_old() {
  const auto oldest = Clock::now() - options_.times.idle;
  const auto is_done = [&](Line& line) { return line.since < oldest || line.is_over(); };
  for (auto item = peers_.begin(); item != peers_.end();) {
    auto& peer = item->second;
    peer.idle.erase(std::remove_if(peer.idle.begin(), peer.idle.end(), is_done), peer.idle.end());
    if (peer.idle.empty() && peer.users == 0) {
      mapped_->drop(peer.server);
      item = peers_.erase(item);
    } else {
      ++item;
    }
  }
}

/// The body of the client's thread: releases connections and mappings of servers that have ended or are no longer used.
void BulkClient::Impl::keep() {
  const auto pause = std::clamp<Duration>(options_.times.idle, shortest_pause, look_around);
  Lock lock{mutex_};
  while (!stop_.is_set()) {
    if (peers_.empty())
      looks_.wait(lock, [this] { return stop_.is_set() || !peers_.empty(); });
    else
      looks_.wait_for(lock, pause, [this] { return stop_.is_set(); });
    drop_old();
  }
}

std::optional<Line> BulkClient::Impl::take_idle(Peer& peer) {
  const std::lock_guard lock{mutex_};
  while (!peer.idle.empty()) {
    auto line = std::move(peer.idle.back());
    peer.idle.pop_back();
    if (!line.is_over())
      return line;
  }
  return std::nullopt;
}

void BulkClient::Impl::give_back(Peer& peer, Line line) {
  line.since = Clock::now();
  const std::lock_guard lock{mutex_};
  if (line.intact && !stop_.is_set())
    peer.idle.push_back(std::move(line));
}

Result<SharedRegion> BulkClient::Impl::fetch(Fetch job) {
  Lock lock{mutex_};
  if (stop_.is_set())
    return fail(Errc::cancelled, job.text("the client is closed"));
  if (peers_.empty())
    looks_.notify_all();
  auto& peer = peers_[to_string(job.address)];
  peer.server = job.address.server;
  ++peer.users;
  ++running_;
  auto result = Result<SharedRegion>{fail(Errc::internal, {})};
  if (auto entered = enter(peer, job, lock); !entered) {
    result = fail(entered.error());
  } else {
    ++peer.running;
    lock.unlock();
    result = run(peer, job);
    lock.lock();
    --peer.running;
  }
  --peer.users;
  --running_;
  changed_.notify_all();
  return result;
}

Result<void> BulkClient::Impl::start() {
  try {
    keeper_ = std::thread{[this] { keep(); }};
  } catch (const std::system_error& error) {
    return fail(Errc::unavailable, fmt::format("the client of bulk data has no thread: {}", error.what()));
  }
  return {};
}

std::size_t BulkClient::Impl::idle_connections() const {
  const std::lock_guard lock{mutex_};
  std::size_t count = 0;
  for (const auto& [address, peer] : peers_)
    count += peer.idle.size();
  return count;
}

void BulkClient::Impl::close() {
  const std::lock_guard closing{closing_};
  {
    Lock lock{mutex_};
    stop_.set();
    changed_.notify_all();
    looks_.notify_all();
    changed_.wait(lock, [this] { return running_ == 0; });
    for (const auto& [address, peer] : peers_)
      mapped_->drop(peer.server);
    peers_.clear();
  }
  if (keeper_.joinable())
    keeper_.join();
}

// -- connecting -----------------------------------------------------------------------------------

Result<Line> BulkClient::Impl::connect(Fetch& job) {
  job.reached = false;
  const auto now = Clock::now();
  const auto until = std::min(job.deadline, deadline_after(now, options_.times.handshake));
  const auto& address = job.address;
  if (options_.local && !address.socket.empty() && address.machine == transport::machine_identity()) {
    auto socket = transport::connect_local(address.socket, stop_, until);
    job.reached = socket.has_value();
    if (socket)
      return Line{Channel{std::move(*socket), stop_}, true, false, now};
    // The socket's name ends with its process, so `worker_died` is final. Only `unavailable` may concern this socket
    // alone.
    if (socket.error().code() != Errc::unavailable || address.endpoint.port == 0)
      return fail(socket.error());
  }
  if (address.endpoint.port == 0)
    return fail(Errc::unavailable, "it serves only processes of its own user, machine and network namespace");
  return connect_remote(job, until);
}

Result<Line> BulkClient::Impl::connect_remote(Fetch& job, TimePoint until) {
  const auto& address = job.address;
  if (address.tls != tls_.has_value())
    return fail(Errc::invalid_argument, address.tls ? "its port speaks TLS, and this process has no certificates"
                                                    : "its port is plain, and this process demands TLS");
  GPUACTORS_LET(socket, transport::connect_tcp(address.endpoint, stop_, until));
  job.reached = true;
  Line line{Channel{std::move(socket), stop_}, false, false, Clock::now()};
  if (tls_) {
    GPUACTORS_TRY(line.channel.secure(*tls_, transport::TlsPart::connects_to_any, until));
    line.peer = line.channel.peer(*tls_);
  }
  return line;
}

// -- a transfer -----------------------------------------------------------------------------------

Result<SharedRegion> BulkClient::Impl::run(Peer& peer, Fetch& job) {
  if (auto kept = take_idle(peer)) {
    auto result = use(*kept, job);
    give_back(peer, std::move(*kept));
    // The server may have closed the idle connection at the same moment: tries again with a new one.
    if (result || job.answered || result.error().code() != Errc::worker_died)
      return result;
  }
  const auto give_up = std::min(job.deadline, deadline_after(Clock::now(), longest_without_place));
  for (transport::RetryPause wait{first_wait, longest_wait};;) {
    auto result = run_anew(peer, job);
    // Who takes a connection and ends it without an answer has no place for it. Or the process has ended: then nobody
    // takes the next one.
    if (result || result.error().code() != Errc::worker_died || !job.reached || job.answered)
      return result;
    const auto again = std::min(give_up, deadline_after(Clock::now(), wait.next()));
    if (auto waited = transport::wait_for(-1, 0, stop_, again); waited.error().code() != Errc::deadline_exceeded)
      return fail(waited.error().code(), job.text(waited.error().message()));
    if (again == give_up)
      return fail(give_up == job.deadline ? Errc::deadline_exceeded : Errc::unavailable,
                  job.text("the process that keeps it has no place for another connection"));
  }
}

Result<SharedRegion> BulkClient::Impl::run_anew(Peer& peer, Fetch& job) {
  auto line = connect(job);
  if (!line)
    return job.failure(line.error());
  auto result = use(*line, job);
  give_back(peer, std::move(*line));
  return result;
}

Result<SharedRegion> BulkClient::Impl::use(Line& line, Fetch& job) {
  auto result = job.arrived ? Result<SharedRegion>{SharedRegion{}} : transfer(line, job);
  if (!result || job.hand_over == 0)
    return result;
  Request taken{job.address.server, job.id, job.hand_over};
  taken.taken = true;
  if (!line.channel.write_frame(encode(taken), deadline_after(Clock::now(), options_.times.progress)))
    line.intact = false; // without the report, the server drops the hand-over after a time limit
  return result;
}

Result<SharedRegion> BulkClient::Impl::transfer(Line& line, Fetch& job) {
  // The server may have to copy the region from a device to host memory first.
  const auto gathering = std::chrono::seconds{std::min(job.bytes, most_gathered) / limits::bulk_gathered_a_second};
  const auto until = std::min(job.deadline, deadline_after(Clock::now(), options_.times.progress + gathering));
  const Request request{job.address.server, job.id, job.bytes, line.local && job.maps,
                        line.local && job.open != nullptr};
  line.intact = false;
  if (auto sent = line.channel.write_frame(encode(request), until); !sent)
    return job.failure(sent.error());
  Frame frame;
  Passed passed;
  auto read = line.local ? line.channel.read_frame(frame, passed, until) : line.channel.read_frame(frame, until);
  if (!read)
    return job.failure(read.error());
  job.answered = true;
  const auto answer = decode_answer(frame);
  if (!answer || answer->id != job.id
      || (!line.local && (answer->status == Status::mapped || answer->status == Status::on_device)))
    return fail(Errc::worker_died, job.text("what answers at its port is no server of bulk data of this version: the "
                                            "process that kept it has ended, or is of another release"));
  line.intact = answer->status != Status::streamed;
  switch (answer->status) {
  case Status::not_found:
    return fail(Errc::not_found, job.text("it is gone: nobody keeps it any more"));
  case Status::other_size:
    return fail(Errc::invalid_argument, job.text(fmt::format("it has {} bytes", answer->bytes)));
  case Status::other_server:
    return fail(Errc::worker_died, job.text("the process that kept it has ended, another one has its port"));
  case Status::lost:
    return fail(Errc::actor_died, job.text("it is lost: the task or actor that put it has ended"));
  case Status::failed:
    return fail(Errc::unavailable, job.text("its process could not bring it to host memory just now"));
  case Status::mapped:
    return map(line, job, std::move(passed));
  case Status::on_device:
    return open(line, job, std::move(passed));
  case Status::streamed:
    break;
  }
  return receive(line, job);
}

Result<SharedRegion> BulkClient::Impl::open(Line& line, Fetch& job, Passed passed) {
  const auto opens = std::exchange(job.open, nullptr);
  if (opens == nullptr)
    return fail(Errc::unavailable, job.text("it was handed over on a device without being asked to"));
  if (passed.memory && passed.token && passed.token.get() < descriptors_most_
      && opens(passed.memory.get(), std::make_shared<Descriptor>(std::move(passed.token))))
    return SharedRegion{};
  // The device memory cannot be opened: fetches the region through the host.
  passed = {};
  return transfer(line, job);
}

Result<SharedRegion> BulkClient::Impl::map(Line& line, Fetch& job, Passed passed) {
  // Each mapped region holds a descriptor. A process with few left takes a copy instead.
  if (!passed.memory || !passed.token || passed.token.get() >= descriptors_most_) {
    if (!job.maps)
      return fail(Errc::unavailable, job.text("it was handed over without being asked to"));
    job.maps = false;
    passed = {};
    return transfer(line, job);
  }
  auto region = mapped_->map(std::move(passed.memory), std::move(passed.token), job.bytes, job.address.server);
  if (!region)
    return job.failure(region.error());
  return region;
}

Result<SharedRegion> BulkClient::Impl::receive(Line& line, Fetch& job) {
  auto draft = options_.pool->make(job.bytes, RegionReaders::process);
  if (!draft)
    return job.failure(draft.error());
  if (auto read = line.channel.read_all(draft->data(), draft->size(), options_.times.progress, job.deadline, job.done);
      !read)
    return job.failure(read.error());
  line.intact = true;
  return std::move(*draft).seal();
}

// -- BulkClient -----------------------------------------------------------------------------------

BulkClient::BulkClient(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {
  // nop
}

BulkClient::~BulkClient() = default;

Result<std::unique_ptr<BulkClient>> BulkClient::create(BulkClientOptions options) {
  std::optional<TlsContext> tls;
  if (options.certificates) {
    GPUACTORS_LET(loaded, TlsContext::load(*options.certificates));
    tls = std::move(loaded);
  }
  GPUACTORS_LET(stop, Signal::make());
  auto impl = std::make_unique<Impl>(std::move(options), std::move(tls), std::move(stop));
  GPUACTORS_TRY(impl->start());
  return std::unique_ptr<BulkClient>{new BulkClient{std::move(impl)}};
}

Result<SharedRegion> BulkClient::fetch(const BulkAddress& address, std::uint64_t id, std::uint64_t bytes,
                                       TimePoint deadline, std::uint64_t hand_over, OpenDevice open) {
  return impl_->fetch({address, id, bytes, deadline, hand_over, std::move(open)});
}

void BulkClient::taken(const BulkAddress& address, std::uint64_t id, std::uint64_t hand_over, TimePoint deadline) {
  Fetch job{address, id, 0, deadline, hand_over};
  job.arrived = true;
  (void)impl_->fetch(job);
}

std::size_t BulkClient::idle_connections() const {
  return impl_->idle_connections();
}

void BulkClient::close() {
  impl_->close();
}

} // namespace gpuactors
