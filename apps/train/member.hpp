// An actor that trains together with others of its kind: each has the whole network and a part of every batch, and the
// gradients of all are summed up by NCCL, or by the library's collectives.
//
//   method    in             out
//   join      Places         Status       makes it part of a group, at the beginning of the epoch under way
//   epoch     Empty          Progress     learns one epoch; an error when the group is over before that
//   leave     Empty          Empty        nothing: answered when no epoch is under way
//   nccl_id   Empty          NcclId       a name for a group that sums by NCCL
//   status    Empty          Status       also while an epoch is under way
//   evaluate, save                        as those of a trainer
//   learn     Lesson         Progress...  for members of a team: goes on from what any of them has; one item an epoch
//   go_back   Empty          Status       to the beginning of the epoch under way; an error where it has no whole one
//
// The program forms a collective group of all members before they join, and ends an epoch by ending that group. A team
// (`gpuactors::Team`) does so by itself, and has them `learn` in place of `join` and `epoch`.
#pragma once

#include "nccl_sum.hpp"
#include "plan.hpp"
#include "progress_metrics.hpp"

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

namespace train {

class MemberActor : public gpuactors::WithPeers<gpuactors::Actor> {
public:
  /// Throws what `make_training` or a checkpoint reports.
  MemberActor(gpuactors::Init init, const Plan& plan);
  MemberActor(const MemberActor&) = delete;
  MemberActor& operator=(const MemberActor&) = delete;
  ~MemberActor() override;

  gpuactors::Result<Status> join(const Places& places);
  gpuactors::Result<Progress> epoch(const google::protobuf::Empty& request);
  void leave(const google::protobuf::Empty& request);
  gpuactors::Result<NcclId> nccl_id(const google::protobuf::Empty& request);
  gpuactors::Result<Evaluation> evaluate(const google::protobuf::Empty& request);
  gpuactors::Result<Status> save_to(const Path& path);
  [[nodiscard]] Status status(const google::protobuf::Empty& request) const;
  gpuactors::Result<void> learn(const Lesson& lesson, gpuactors::ReplyStream<Progress>& reports);
  gpuactors::Result<Status> go_back(const google::protobuf::Empty& request);

private:
  /// Wakes who waits for NCCL. Shared with NCCL's callbacks.
  struct Alarm {
    std::mutex mutex;
    std::condition_variable changed;
    bool rung = false;
  };

  /// What an epoch brings is one report, which has room for so many steps.
  [[nodiscard]] gpuactors::Result<void> check_steps() const;
  gpuactors::Result<void> learn_epoch();
  /// One epoch, and what it has brought.
  gpuactors::Result<Progress> report_epoch();
  /// To the beginning of the epoch under way.
  gpuactors::Result<void> rewind();
  /// Has all members begin where the one begins that has learnt most.
  gpuactors::Result<void> agree(const Lesson& lesson);
  /// All that knew more have died: what they had learnt is in the checkpoint, or is learnt again.
  gpuactors::Result<void> find_checkpoint(const Lesson& lesson);
  /// To what the checkpoint says, which is the beginning of an epoch.
  gpuactors::Result<void> load_checkpoint();
  /// Writes the checkpoint if it is due after the epoch, and reports the epoch.
  gpuactors::Result<void> end_epoch(const Lesson& lesson, Progress progress, gpuactors::ReplyStream<Progress>& reports);
  /// Writes what was learnt, with the loss of the last batch of all members.
  gpuactors::Result<void> write_checkpoint(const Progress& progress);
  /// What there is to tell of the last epoch by a member that may not have learnt it itself.
  [[nodiscard]] Progress known_progress() const;
  /// The loss of the last batch of all members, if this one knows it.
  [[nodiscard]] std::optional<double> known_loss() const;
  void keep_loss(double loss);
  /// Puts the sum of all gradients in the place of the own ones.
  gpuactors::Result<void> sum();
  /// Why no further step is made; nothing if there is no reason.
  [[nodiscard]] gpuactors::Result<void> may_go_on() const;
  /// Asks NCCL until the answer is yes.
  gpuactors::Result<void> await(gpuactors::Result<bool> (NcclSum::*question)());
  /// Keeps for `status` how far it is. @returns the same.
  Status note_status();
  void note_position();

  Plan plan_;
  TrainingRun training_;
  ProgressMetrics metrics_{metrics()};
  std::shared_ptr<Alarm> alarm_ = std::make_shared<Alarm>();
  /// Null where members sum by messages.
  std::unique_ptr<NcclSum> nccl_;
  /// The gradients of a step were found, and are not followed yet.
  bool open_ = false;
  /// It has what it says that it has learnt, and not a part of what another one was sending.
  bool whole_ = true;
  /// Of the last batch of all members, when so many epochs were over.
  std::optional<double> loss_;
  std::uint64_t loss_epoch_ = 0;
  mutable std::mutex mutex_;
  /// Guarded by the mutex.
  Status status_;
};

} // namespace train
