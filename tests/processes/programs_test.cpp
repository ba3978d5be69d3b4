// A node whose workers run several programs, and programs that are replaced while it serves.
#include "fixture.hpp"

#include <csignal>
#include <filesystem>
#include <fstream>
#include <set>

using namespace gpuactors;
using namespace gpuactors::test;

namespace {

/// The files that the processes of a node run.
std::multiset<std::string> running(Processes& processes, const std::string& node) {
  std::multiset<std::string> files;
  for (const auto pid : processes.pids(node)) {
    std::error_code error;
    const auto file = std::filesystem::read_symlink("/proc/" + std::to_string(pid) + "/exe", error);
    files.insert(file.filename().string());
  }
  return files;
}

/// Squares 1 and 2 in the program of examples, whose messages this one does not know.
Result<std::string> square(Cluster& cluster) {
  const auto types = must(cluster.described_types());
  GPUACTORS_LET(input, types.messages().from_json("examples.Vector", R"({"values":[1,2]})"));
  GPUACTORS_LET(output, cluster.submit_payload("square_plus", std::move(input), {.gpus = 0.25}).get());
  return types.messages().to_json(output);
}

double task_pid(Cluster& cluster) {
  return must(cluster.submit<Number>("pid", google::protobuf::Empty{}, {.gpus = 0.25}).get()).value();
}

bool has_actor_type(Cluster& cluster, const std::string& name) {
  return must(cluster.described_types()).find_actor(name).has_value();
}

} // namespace

TEST_CASE("a node with two programs runs each type in the one that has it, and one's end is not the other's",
          "[processes][types]") {
  Processes processes;
  processes.start_broker();
  processes.start_node("n0", "host:1x64MiB", {"--program", GPUACTORS_TASK_PROGRAM});
  auto cluster = processes.connect();
  const auto counter = must(cluster.spawn("counter", number(1), {.gpus = 0.5, .name = "c"}));
  CHECK(must(square(cluster)) == R"({"values":[4,9]})");
  CHECK(task_pid(cluster) == pid_of(counter));
  CHECK(running(processes, "n0") == std::multiset<std::string>{"gpuactors", "example_task", "test_processes"});
  for (const auto pid : processes.pids("n0"))
    if (std::filesystem::read_symlink("/proc/" + std::to_string(pid) + "/exe").filename() == "example_task")
      Processes::signal(pid, SIGKILL);
  CHECK(eventually([&] { return processes.count("the worker for device 0, example_task (process ") == 1; }));
  CHECK(must(square(cluster)) == R"({"values":[4,9]})");
  CHECK(must(counter.call<Number>("add", number(1)).get()).value() == 2);
}

TEST_CASE("programs that are replaced serve what starts from then on, and nothing that runs is disturbed",
          "[processes][types]") {
  Processes processes;
  const TemporaryFolder folder;
  const auto program = folder.path() / "second";
  std::filesystem::create_symlink(GPUACTORS_TASK_PROGRAM, program);
  processes.start_broker();
  processes.start_node("n0", "host:1x64MiB", {"--program", program.string()});
  auto cluster = processes.connect();
  const auto before = must(cluster.spawn("counter", number(1), {.gpus = 0.25, .name = "before"}));
  must(square(cluster));
  const auto pid_before = task_pid(cluster);
  CHECK(pid_before == pid_of(before));

  std::filesystem::remove(program);
  std::filesystem::create_symlink(GPUACTORS_SERVICE_PROGRAM, program);
  processes.signal("n0", SIGUSR1);
  CHECK(eventually([&] { return has_actor_type(cluster, "doubler"); }));
  CHECK(event_of(cluster, "node_renewed", "n0").has_value());
  CHECK(square(cluster).error().code() == Errc::not_found);
  // Also where the client keeps a lease for its next task.
  CHECK(eventually([&] { return task_pid(cluster) != pid_before; }));
  const auto after = must(cluster.spawn("counter", number(1), {.gpus = 0.25, .name = "after"}));
  CHECK(pid_of(after) != pid_of(before));
  CHECK(pid_of(before) == pid_before);
  CHECK(must(before.call<Number>("add", number(1)).get()).value() == 2);
  // The process of what ran before ends with the last of it.
  must(cluster.kill("before"));
  CHECK(eventually([&] {
    return running(processes, "n0") == std::multiset<std::string>{"gpuactors", "test_processes"};
  }));
  CHECK(processes.count("the worker for") == 0);
}

TEST_CASE("programs that cannot be replaced by what is there now stay as they are", "[processes][types]") {
  Processes processes;
  const TemporaryFolder folder;
  const auto program = folder.path() / "second";
  std::filesystem::create_symlink(GPUACTORS_TASK_PROGRAM, program);
  processes.start_broker();
  processes.start_node("n0", "host:1x64MiB", {"--program", program.string()});
  auto cluster = processes.connect();
  const auto counter = must(cluster.spawn("counter", number(1), {.gpus = 0.25, .name = "c"}));
  std::filesystem::remove(program);
  std::filesystem::create_symlink("/bin/true", program);
  processes.signal("n0", SIGUSR1);
  CHECK(eventually([&] { return processes.count("the programs stay as they are: ") == 1; }));
  CHECK_FALSE(event_of(cluster, "node_renewed").has_value());
  CHECK(task_pid(cluster) == pid_of(counter));
}

TEST_CASE("a node that waits for the answer of a new program ends when it is told to", "[processes][types]") {
  Processes processes;
  const TemporaryFolder folder;
  const auto program = folder.path() / "second";
  std::filesystem::create_symlink(GPUACTORS_TASK_PROGRAM, program);
  processes.start_broker();
  processes.start_node("n0", "host:1x64MiB", {"--program", program.string()});
  std::filesystem::remove(program);
  std::ofstream{program} << "#!/bin/sh\nexec sleep 1000\n";
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  processes.signal("n0", SIGUSR1);
  CHECK(eventually([&] { return processes.count("SIGUSR1: looking at the programs anew") == 1; }));
  processes.signal("n0", SIGTERM);
  // Sooner than it would give the program up by itself.
  processes.await_end("n0");
}

TEST_CASE("a node stays with its programs if the new ones do not see its devices", "[processes][types]") {
  Processes processes;
  const TemporaryFolder folder;
  const auto program = folder.path() / "second";
  std::filesystem::create_symlink(GPUACTORS_TASK_PROGRAM, program);
  processes.start_broker();
  processes.start_node("n0", "host:2x64MiB", {"--program", program.string()});
  // The same program, told to see one device less.
  std::filesystem::remove(program);
  std::ofstream{program} << "#!/bin/sh\n[ \"$2\" = --describe ] && set -- \"$1\" \"$2\" \"$3\" host:1x64MiB \"$5\"\n"
                         << "exec " << GPUACTORS_TASK_PROGRAM << " \"$@\"\n";
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  processes.signal("n0", SIGUSR1);
  CHECK(eventually([&] { return processes.count("the programs of a node must see the same") == 1; }));
}
