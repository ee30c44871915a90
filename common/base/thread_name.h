// Names threads for ps, top and gdb.
#pragma once

#include <pthread.h>

namespace roost {

// Names the calling thread, with at most 15 characters.
inline void NameThisThread(const char* name) { pthread_setname_np(pthread_self(), name); }

}  // namespace roost
