// A core dump of a daemon holds prompts, answers, keys and salts, and so does whatever a debugger reads from it.
#pragma once

namespace roost {

// From now on this process leaves no core dump, not even to a program that the kernel starts for it, and other
// processes of its user can neither trace it nor read its memory. It can not be undone. Call it before secrets are
// read.
void ForbidCoreDumps();

}  // namespace roost
