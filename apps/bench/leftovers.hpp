// What is taken away when this process ends, however it ends: processes that it started, folders that it made.
#pragma once

#include <sys/types.h>

#include <string>

namespace gpuactors::bench {

/// From now on what is left is taken away at `exit` too, and at SIGINT and SIGTERM, which then end this process as they
/// would have. Called once, before there is any other thread: the signals are blocked in all of them.
void clean_up_at_end();

/// To be ended with this process. Any thread, as all of these.
void keep_process(pid_t pid);

/// Asks it to end, and waits until it has; after a minute it has to.
void end_process(pid_t pid);

/// To be removed with this process, when its processes have ended.
void keep_folder(const std::string& path);

void remove_folder(const std::string& path);

} // namespace gpuactors::bench
