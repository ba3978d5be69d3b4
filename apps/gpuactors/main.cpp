// The program `gpuactors`: run a cluster, look at it, submit tasks, spawn and call actors, try placements.
#include "command.hpp"

#include <gpuactors/base/version.hpp>
#include <gpuactors/cluster/daemon.hpp>

#include <string>
#include <string_view>
#include <vector>

static_assert(std::string_view{GPUACTORS_VERSION} == gpuactors::release,
              "base/version.hpp and the project's version in CMakeLists.txt have drifted apart");

int main(int argc, char** argv) {
  if (const auto code = gpuactors::run_if_worker(argc, argv))
    return *code;
  using namespace gpuactors::cli;
  CLI::App program{"GPU-owning actors and tasks: half a GPU, 6 GiB of GPU, two whole GPUs on one node.", "gpuactors"};
  program.set_version_flag("--version", "gpuactors " GPUACTORS_VERSION);
  program.footer(
      "Without a GPU, work runs on this machine's cores, as a host device.\n\n"
      "Examples:\n"
      "  gpuactors devices                                     what this machine offers\n"
      "  gpuactors types                                       what can be submitted, and its messages\n"
      "  gpuactors submit matmul --gpus 0.5 '{\"n\":1000}'       run a task on half a device\n"
      "  gpuactors plan scenario.json                          place without running\n\n"
      "A cluster on this machine:\n"
      "  gpuactors up                                          in another terminal, until Ctrl-C\n"
      "  export GPUACTORS_BROKER=127.0.0.1:7711                what it says; or --broker each time\n"
      "  gpuactors spawn counter --name c0 --gpus 0.5          an actor, which stays\n"
      "  gpuactors call c0 add '{\"n\":5}'\n"
      "  gpuactors status                                      also: nodes, actors, calls, leases, queue, quotas\n"
      "  gpuactors logs c0 -f                                  what it prints\n"
      "  gpuactors kill c0 --no-restart                        also: wait, until it has ended\n"
      "  gpuactors dashboard                                   all of it in a browser\n"
      "More machines: gpuactors certs init, gpuactors broker, gpuactors node.\n"
      "Certificates elsewhere than in the user's own folder: export GPUACTORS_CERTS=DIR, or --certs each time.\n\n"
      "Exit code: 0 success, 2 bad usage or input, 1 any other failure.\n"
      "More on a subcommand: gpuactors SUBCOMMAND --help");
  const std::vector<Command> commands{
      add_types(program),   add_devices(program),   add_submit(program), add_spawn(program),  add_call(program),
      add_kill(program),    add_wait(program),      add_status(program), add_nodes(program),  add_actors(program),
      add_calls(program),   add_leases(program),    add_queue(program),  add_groups(program), add_quotas(program),
      add_drain(program),   add_undrain(program),   add_logs(program),   add_events(program), add_timeline(program),
      add_metrics(program), add_dashboard(program), add_plan(program),   add_certs(program),  add_up(program),
      add_broker(program),  add_node(program)};
  // "help", "help up" and "version" stand for the options of that name, as in git.
  std::vector<char*> words(argv, argv + argc);
  std::string help{"--help"};
  std::string version{"--version"};
  if (argc > 1 && std::string_view{argv[1]} == "help") {
    words.erase(words.begin() + 1);
    words.push_back(help.data());
  } else if (argc == 2 && std::string_view{argv[1]} == "version") {
    words[1] = version.data();
  }
  return run(program, commands, static_cast<int>(words.size()), words.data());
}
