// An actor that trains a network and keeps all of it on its device: parameters, optimizer, data.
//
//   method    in          out
//   run       RunRequest  a stream of Progress    until so many epochs are over; end the stream to stop it
//   step      Rows        Loss                    one step on other rows
//   evaluate  Empty       Evaluation              on the rows that are for the test
//   save      Path        Status                  an empty path means the plan's checkpoint
//   load      Path        Status
//   status    Empty       Status                  also while another method runs
//   stop      Empty       Status                  writes the plan's checkpoint, if it has one, for who ends it now, and
//                                                 says what the stream of the run may not have brought
//
// Started anew after its worker died, on whatever node, it goes on from its last checkpoint; if it was moved, its
// status says what may not have been told before.
#pragma once

#include "plan.hpp"
#include "progress_metrics.hpp"

#include <deque>
#include <mutex>

namespace train {

class TrainerActor : public gpuactors::Actor {
public:
  /// Throws what `make_training` or a checkpoint reports.
  TrainerActor(gpuactors::Init init, const Plan& plan);
  TrainerActor(const TrainerActor&) = delete;
  TrainerActor& operator=(const TrainerActor&) = delete;
  ~TrainerActor() override;

  gpuactors::Result<void> run(const RunRequest& request, gpuactors::ReplyStream<Progress>& events);
  gpuactors::Result<Loss> step(const Rows& rows);
  gpuactors::Result<Evaluation> evaluate(const google::protobuf::Empty& request);
  gpuactors::Result<Status> save_to(const Path& path);
  gpuactors::Result<Status> load_from(const Path& path);
  [[nodiscard]] Status status(const google::protobuf::Empty& request) const;
  gpuactors::Result<Status> stop(const google::protobuf::Empty& request);

private:
  /// Goes back to what an earlier life has written, or what the plan says to begin with.
  gpuactors::Result<void> find_beginning();
  gpuactors::Result<void> write_checkpoint();
  /// Tells later lives where the checkpoint is, and what may be untold.
  gpuactors::Result<void> note_checkpoint();
  /// Writes the checkpoint. @returns that it was stopped, and where.
  gpuactors::Result<void> stop_here();
  /// Keeps a report: nobody tells whether a reader that ends a stream has received the last ones.
  void keep(const Progress& report);
  /// Adds the reports that were kept.
  [[nodiscard]] Status with_untold(Status status) const;
  /// Keeps for `status` how far it is. @returns the same.
  Status note_status();

  Plan plan_;
  TrainingRun training_;
  ProgressMetrics metrics_{metrics()};
  bool noted_ = false;
  std::deque<Progress> recent_;
  mutable std::mutex mutex_;
  /// Guarded by the mutex.
  Status status_;
};

} // namespace train
