// TeamState: a team at work. The thread of `run` reads what its members report, and does what `TeamCore` decides.
#pragma once

#include <gpuactors/collective/detail/team_members.hpp>

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace gpuactors::detail {

/// As `Team`.
class TeamState : public std::enable_shared_from_this<TeamState> {
public:
  TeamState(Cluster& cluster, std::string type, std::vector<PayloadMember> members, TeamOptions options);
  TeamState(const TeamState&) = delete;
  TeamState& operator=(const TeamState&) = delete;
  ~TeamState() = default;

  Result<std::vector<Payload>> run(const TeamWork& work);
  Future<std::vector<Payload>> run_async(TeamWork work);

  void stop() {
    bell_->stop();
  }

  /// Stops the work with that number, if it is under way.
  void stop(std::uint64_t work);

  /// Stops the work and waits for its end; the members end with this object.
  void close();

  [[nodiscard]] std::vector<ActorRef> members() const {
    return members_.refs();
  }

private:
  using Readers = std::vector<StreamReader<Payload>>;

  /// Begins a piece of work: one at a time. @returns its number.
  Result<std::uint64_t> begin();
  void finish();
  /// The same as `run` once it has begun, and without what the functions of the work throw.
  Result<std::vector<Payload>> work_through(const TeamWork& work);
  Result<std::vector<Payload>> attempt_all(const TeamWork& work);
  /// One attempt. @returns why it failed; nothing after a success.
  Result<std::optional<FailedAttempt>> attempt(TeamCore& core, const TeamWork& work);
  /// Calls all members. @returns an error of the function that makes requests.
  Result<Readers> begin_calls(TeamCore& core, const TeamWork& work) const;
  /// Reads until all calls have ended; after a failure at most as long as members may take.
  void read_all(TeamCore& core, Readers& readers, const TeamWork& work);
  /// Reads what is there from one member.
  void read(TeamCore& core, StreamReader<Payload>& reader, std::size_t rank, const TeamWork& work) const;
  /// What became of the members after an attempt that failed.
  [[nodiscard]] std::vector<MemberEnd> look(const TeamCore& core) const;
  void pause(Duration length) const;

  TeamOptions options_;
  std::shared_ptr<TeamBell> bell_ = std::make_shared<TeamBell>();
  TeamMembers members_;
  std::mutex mutex_;
  std::condition_variable idle_;
  /// Guarded by the mutex.
  bool works_ = false;
  std::uint64_t work_ = 0;
  std::thread thread_;
};

} // namespace gpuactors::detail
