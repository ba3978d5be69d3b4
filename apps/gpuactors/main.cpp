// The program `gpuactors`: look at devices and types, submit tasks, try placements.
#include "command.hpp"

#include <gpuactors/cluster/daemon.hpp>

int main(int argc, char** argv) {
  if (const auto code = gpuactors::run_if_worker(argc, argv))
    return *code;
  using namespace gpuactors::cli;
  CLI::App program{"GPU-owning actors and tasks: half a GPU, 6 GiB of GPU, two whole GPUs on one node.", "gpuactors"};
  program.set_version_flag("--version", "gpuactors " GPUACTORS_VERSION);
  program.footer("Without a GPU, work runs on this machine's cores, as a host device.\n\n"
                 "Examples:\n"
                 "  gpuactors devices                                     what this machine offers\n"
                 "  gpuactors types                                       what can be submitted, and its messages\n"
                 "  gpuactors submit matmul --gpus 0.5 '{\"n\":1000}'       run a task on half a device\n"
                 "  gpuactors up                                          a cluster on this machine; then, elsewhere,\n"
                 "  gpuactors submit matmul --broker 127.0.0.1:7711       work for it\n"
                 "  gpuactors plan scenario.json                          place without running\n"
                 "  gpuactors certs init                                  an authority for machines of a cluster\n\n"
                 "Exit code: 0 success, 2 bad usage or input, 1 any other failure.\n"
                 "More on a subcommand: gpuactors SUBCOMMAND --help");
  const std::vector<Command> commands{add_types(program), add_devices(program), add_submit(program), add_plan(program),
                                      add_certs(program), add_up(program),      add_broker(program), add_node(program)};
  return run(program, commands, argc, argv);
}
