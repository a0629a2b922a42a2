/* The public header is C11, and its structs can be used from C alone. */
#include <string.h>

#include "client/include/stoker/stoker.h"

int stoker_header_in_c(void);

int stoker_header_in_c(void) {
  stoker_attach_options options;
  stoker_stream* stream = NULL;
  memset(&options, 0, sizeof(options));
  options.struct_bytes = sizeof(options);
  options.socket_path = "/nonexistent/attach.sock";
  options.stream_name = "none";
  if (stoker_attach(&options, &stream) != STOKER_UNAVAILABLE || stream != NULL) return 1;
  if (strstr(stoker_last_error(), "/nonexistent/attach.sock") == NULL) return 2;
  options.stream_name = NULL;
  if (stoker_attach(&options, &stream) != STOKER_INVALID_ARGUMENT) return 3;
  stoker_batch_release(NULL);
  stoker_stream_close(NULL);
  return 0;
}
