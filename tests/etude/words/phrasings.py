# ruff: noqa: E501  (tables of phrasings: a phrasing a piece)
"""How users say each thing: frames with `{0}` for a value and `[this|that]` for words that can stand there.

Every fourth frame, and every fourth of four or more words that can stand somewhere, is kept for evaluation
(`wording.py`).
"""

from __future__ import annotations

from collections.abc import Mapping

_SUM = "What is|What's|How much is|What does|Compute|Calculate|Work out|Evaluate|Solve|Find|Determine|Figure out|Reckon"
_TELL = "Tell me|I need to know|I want to know|I'd like to know|Do you know|Let me know|Can you tell me|I wonder|Say"
_CAN = "Can you|Could you|Would you|Will you|I want you to|I'd like you to|I need you to|You should|Go and|Try to"
_SHOW = "Show|Show me|Display|Print|Give me|Output|Let me see|Get me|Bring up|I want to see|Present|Reveal"
_ABOUT = "about|on|for|regarding|with|around|concerning|as to"
_THE_FILE = "|the file |file |the text file |that file |the document |our file |this: "
_FOLDER = "the folder |folder |the directory |directory |the dir |path |the path |my folder "
_HERE = "here|in this folder|in this directory|in the current folder|in the workspace|in my folder|at hand|right here"
_WEB = "the web|the internet|the net|online sources|Google|the world wide web|the Internet|some search engine"

PHRASINGS: Mapping[str, tuple[str, ...]] = {
    "sum": (
        f"[{_SUM}] {{0}}[?|.||!]", "{0}", "{0}[ = ?|=|?| = | is what?| equals?| makes? | =?]",
        "[What|How much] does {0} [make|give|equal|come to|yield|amount to]?", "How [many|much] is {0}?",
        "[Give me|Show me|I need|I want|Get me|Find|What is|Let me have] the [value|result|answer|sum|total|solution] "
        "[of|to|for] {0}[.||, please.]",
        f"[{_TELL}] [what|how much] {{0}} [is|makes|gives|equals|comes to|would be][.|?|]",
        "[The answer|The result|The value|The total] [to|of|for] {0}[, please.|?||.]",
        f"[{_CAN}] [do|compute|calculate|work out|solve|add up|evaluate|figure out] {{0}}[?|.||for me?]",
        "{0}[, please|: how much is that|: what is it|, what do I get|. What is the result|. Compute it| please]?",
        "[My homework|The exercise|The task|My sum|Here is a sum|Next one|Question]: {0}[.||?]",
        "[If I|When I|Suppose I|Say I] [type|take|have|enter] {0}, what [do I get|comes out|is it|is the result]?",
    ),
    "spoken sum": (
        "[What is|How much is|What's|How many is|What makes|Compute|Calculate|Work out|Evaluate|Find|Solve] {0}[?||.|!]",
        "[What do you get for|What do I get for|What comes out of|How about|What would be|Give me] {0}[?|.|]",
        f"[{_TELL}] [what|how much] {{0}} [is|makes|gives|would be][.|?|]", "Tell me {0}[.|, please.]",
        f"[{_CAN}] [do|compute|calculate|work out|solve] {{0}}[?|.|]", "Please calculate {0}[.|]", "{0}[?||, please.| =|.]",
        "The result of {0}[, please.|?|.|]",
    ),
    "add": (
        "[Add|Now add|Please add|And add|Then add|Put|Next add|Also add] {0}[ to that.| to it.|.| on top.| to the result.]",
        "[Plus|And plus|Now plus|Then plus] {0}[?|.||, then?]", "[And|Now|What about|How about] {0} more?",
        "Increase [it|that|the result|this] by {0}[.|]", "[What is|How much is] [that|it|the result] plus {0}?",
        "[That|It|The result|This] plus {0}[?|.||, please.]", "[Sum|Raise] [it|that|the result] [with|by] {0}[.|]",
        "[And|Now|Then] [with|if I add] {0} [added|more|on top]?",
    ),
    "subtract": (
        "[Subtract|Now subtract|Take|Please subtract|Deduct|Then subtract|Remove|And subtract] {0}"
        "[ from that.| from it.|.| from the result.]",
        "[Minus|And minus|Now minus|Then minus] {0}[?|.||, then?]", "Take away {0}[.|]", "[And|Now|What about] {0} less?",
        "[Decrease|Reduce|Lower] [it|that|the result|this] by {0}[.|]", "[What is|How much is] [that|it] minus {0}?",
        "[That|It|The result|This] minus {0}[?|.||, please.]", "[And|Now] without {0}[?|.]",
    ),
    "multiply": (
        "[Multiply|Now multiply|Please multiply|Then multiply] [it|that|the result|this] [by|with] {0}[.|]",
        "[Times|And times|Now times|Then times] {0}[?|.||, then?]", "And that {0} times?", "Now multiply by {0}[.|]",
        "[What is|How much is] [that|it|the result] times {0}?", "[That|It|The result|This] times {0}[?|.||, please.]",
        "[Take|Make] [it|that] {0} times[.|, please.|]", "[And|Now] {0} times [that|as much|as many|the result]?",
    ),
    "divide": (
        "[Divide|Now divide|Please divide|Then divide] [it|that|the result|this] by {0}[.|]",
        "[Divided by|And divided by|Now divided by|Then divided by] {0}[?|.||, then?]", "[And over|Over] {0}?",
        "Now divide by {0}[.|]", "[What is|How much is] [that|it|the result] divided by {0}?",
        "[That|It|The result|This] divided by {0}[?|.||, please.]", "[Split|Share] [it|that] [by|into] {0}[.|?|]",
        "[And|Now] [that|it] over {0}[?|.]",
    ),
    "weather": (
        "[What is|What's|How is|How's|Tell me|Check|Show me|Give me|I need|Look up|Find|Get|See|Report] "
        "[the weather|the weather like|today's weather|the current weather] [in|for|at|of|over in|around] {0}[?|.|| now?]",
        "[Weather|The weather|weather|Current weather|Forecast|Weather report] [in|for|of|at|from|near] {0}[?|.||, please.]",
        "weather {0}", "What [sort|kind] of weather [is it|is there|do they have|have they] in {0}[?|]",
        "[Is|Was] the weather [in|of] {0} [good|bad|nice|fine|okay|warm|cold|dry]?",
        f"[{_TELL}] [how the weather is|the weather|what the weather is like|about the weather] in {{0}}[.|?|]",
        "What weather [does|has|do they have in|is there in] {0} [have|got|today|now|]?",
        "How [warm|cold|hot|windy|nice|bad] is [the weather|it] in {0}[?|]",
        "[Is it|Will it be|Does it look] [raining|sunny|cold|warm|hot|snowing|windy|cloudy|rainy] in {0}[?|]",
        "{0}[: weather?|: how is the weather?| weather|, what is the weather there?|: the weather, please.| - weather]",
        "[What is|What's] the [temperature|forecast|climate] [in|for|of|at] {0}[?|]", "Look at the weather of {0}[.|]",
        "I [am|will be|travel|fly|go] [in|to] {0}[: how is the weather?|. What is the weather like there?| soon, weather?]",
        "How [warm|cold|hot|wet|windy|dry] is it in {0} [right now|today|at the moment|now|tonight|outside]?",
        "[Do I need|Should I take] [an umbrella|a coat|a jacket|sunglasses] in {0}[?|: how is the weather?]",
        "What's the weather [doing|up to|like today|going to be] in {0}[?|, please?|]",
        "[Any|Is there] [rain|snow|sun|wind|fog] in {0} [today|now|tomorrow]?",
    ),
    "weather too": (
        "[And|What about|How about|Then|Now] [in |for |]{0}[?|]", "And [in|for] {0}[?|, please?|]", "{0}?",
        "[Same|The same|Likewise|Again] for {0}[.|, please.|?|]", "{0} too[.|?]", "And {0}[?|]", "How is it in {0}?",
        "[Now|Also|Next] {0}[.|, please.|?|]",
    ),
    "call": (
        "[Call|Use|Run|Invoke|Try|Execute|Trigger|Start|Apply|Launch|Do|Fire] {0}{1}",
        "[Call|Use|Run|Invoke|Try|Execute|Trigger|Start] the [tool|function|tool named|function called] {0}{1}",
        f"[{_CAN}] [call|use|run|invoke|try|execute|start|do] {{0}}{{1}}", "[Make|Do] a call [to|of] {0}{1}",
        "[Please|Now|Then|Now please|Next] [call|use|invoke|run|try|execute] {0}{1}", "{0}{1}",
        "[Let|Have|Make] {0} run{1}", "[Let's|Let us|We should|We must|Time to] [call|use|run|try] {0}{1}",
        "[The tool|The function|The one called|My tool] {0}, [please|now]{1}", "[A call of|A run of] {0}{1}",
        "[I need|I want|Get me|Give me] [the result of|the answer of|what comes from|the output of] {0}{1}",
        "[What does|What will] {0} [say|give|return|answer|tell]{1}",
        "[Use|Call|Run|Try|Invoke] the {0} [function|tool|command|method|helper]{1}",
        "[Call|Use|Run|Try|Execute] {0} [for me|now|please|once|next]{1}",
        "[I need|I want|I would like|Let us have|We need] [a call|a run|the use] of {0}{1}",
        "[Go ahead and|Please go and|Now just|Would you please|Feel free to] [call|use|run|invoke] {0}{1}",
    ),
    "list": (
        "[List|Show|Show me|Name|Tell me|Give me|Print|Enumerate|Get] [the files|all files|the contents|what is] in "
        f"[|{_FOLDER}]{{0}}[.||, please.]",
        f"[What|Which] files are [|there ]in [|{_FOLDER}]{{0}}[?|]", "[list|ls|List|dir] {0}",
        f"What does [{_FOLDER}]{{0}} [hold|contain|have|have in it]?", f"[What is|What's|What lies] in [{_FOLDER}]{{0}}[?|]",
        "[Which|What] files does {0} [have|hold|contain]?", f"[List|Show|Open|Browse|Look into] [{_FOLDER}]{{0}}[.||, please.]",
        f"[{_TELL}] [what|which] files are in [|{_FOLDER}]{{0}}[.|?|]", "Tell me the files of {0}[.|]",
        "List {0} for me[.|]", "[What|Which] files [can you see|do you see|do you find|do I have|have we] in {0}?",
        f"[{_CAN}] list [the files in |what is in |]{{0}}[?|.|]", "[The files|All files|The content|The names] [in|of|under] {0}[?|.||, please.]",
        "[Give me|Show me|Tell me|List|I need] the [file names|names|names of the files|entries|items] [in|of|under|inside] {0}[.||, please.]",
        "[Show me|Tell me|Let me see|Say] [what's|what is|what lies] [in|inside|under] {0}[.||, please.]",
        "[Which|What] [files|documents|things|entries] does [the folder|the directory|my folder] {0} [have|hold|contain|include]?",
        "{0}: [list it|what is in there|show the files|what files has it|which files]?",
    ),
    "list here": (
        f"[List|Show|Show me|Name|Tell me|Give me|Print|Enumerate] [the files|all files|my files|the files {_HERE.split('|')[0]}][.||, please.]",
        f"[What|Which] files are [there|{_HERE}][?|]", f"List [the files|all files|everything] [{_HERE}][.|]",
        "[What|Which] files do I have[?| here?]", "[Show|List|Print] this [folder|directory][.|]", "What is [here|in here]?",
        f"[What is|What's|What do I have] [{_HERE}]?", "[ls|dir|list|files]", "Name [all files|the files here][.|]",
        f"[{_TELL}] [what|which] files [are|lie] [{_HERE}][.|?|]", f"[{_CAN}] [list|show] [the files|what is here][?|.]",
        f"[Look around|Have a look] [{_HERE}][.|]",
    ),
    "tree": (
        "[Print|Show|Draw|Give me|Show me|Display|Make|I want] [the tree|a tree] [of|for|below|under] [|the folder ]{0}[.||, please.]",
        "[tree|Tree of|Tree] {0}", "[What is|Which is] the [tree|structure|layout] of {0}?",
        "[Show|Tell|Give] me the [structure|layout|hierarchy] of {0}[.|]",
        "{0} as a tree[.||, please.]", "How is {0} [organised|laid out|structured|organized]?",
        "[Show|Print|List] {0} with [its subfolders|all folders below|everything below|all that is below][.|]",
        "[List|Print] {0} recursively[.|]",
        "[The file tree|The directory tree|The folder tree|The tree|A tree] [of|for|below|from] {0}[.||, please.]",
        "[Show|List|Print|Give me] [all files and folders|everything|all folders|all that is|the whole tree] [in|below|under|inside] {0}[.|]",
        "[Starting at|From|Beginning with|Below] {0}[, | ][print|show|draw|list] the [directory tree|tree|whole tree|file tree][.|]",
        "[Show|Draw|Print|Display] [the folder |]{0} [as a tree|in tree form|with all levels|and all below it][.|]",
    ),
    "tree here": (
        "[Print|Show|Draw|Give me|Show me|Display] the tree[.||, please.| of this folder.| of files.]", "tree",
        "[Show|Tell|Give] me the [structure|layout|hierarchy] [of this folder|here|of the project|of it all][.|]",
        "How is this [folder|project|directory|workspace] [organised|laid out|structured|organized]?",
        "[What is|Show] the structure [here|of this folder|of this project]?", "[List|Print] everything recursively[.|]",
        "All files as a tree[.|, please.]", "[Show|List] all [folders and files|subfolders][.|]",
        "[File tree|Directory tree|Project tree|Folder tree|The whole tree][, please.| please|.|]",
        "[Show|Print|Draw|List] [the file tree|the directory tree|the whole tree|all files and subfolders|all files and folders] [here|of this folder|in tree form|of it all|from here][.|]",
        "[Show|Draw|Print] [this folder|the workspace|the project|it] as a tree[.|, please.]",
        "[All|The] [subfolders|folders|levels] [and files|with files] here[.|, please.]",
    ),
    "read": (
        f"[Read|Open|Show|Show me|Print|cat|Display|View|Output|Type out|Load] [{_THE_FILE}]{{0}}[.||, please.| for me.]",
        "[What is|What's|What stands|What is written] in [|the file ]{0}[?|]",
        "[Show|Show me|Print|Give me|Tell me|I want|Read me] the [text|content|contents|lines] [of|in] {0}[.|]",
        "What does [|the file ]{0} [say|contain|hold|tell|have in it][?|]", "Please read {0}[.|]",
        f"[{_TELL}] what [is in |the file says: ]{{0}}[.|?|]", "Tell me what {0} [says|contains|holds|has][.|]",
        "Read me {0}[.|]", f"[{_CAN}] [read|open|show me|print|display] [{_THE_FILE}]{{0}}[?|.|]", "Show me what is in {0}[.|]",
        "Read out {0}[.|]", "[The text|The content|The contents|What is] of {0}[, please.|.|]", "{0}: [what does it say|read it|show it|what is in it][?|.]",
        "[Open|Look into|Look at|Check] {0} and [tell me what it says|show me the text|read it to me|print it][.|]",
    ),
    "grep": (
        "[Search|Look|grep|Scan] [|the folder ]{1} for {0}[.||, please.]", "[Search|Look|Scan] for {0} in [|the folder ]{1}[.|]",
        "[Find|grep|Locate|Seek] {0} in [|the folder |the files of ]{1}[.||, please.]", "Where [in|below] {1} [is|stands] {0}?",
        "[Where is|Where do I find|Where does one find] {0} in {1}[?|]", "[Which|What] [files|lines] in {1} [have|contain|mention|hold] {0}?",
        "[List|Show] [the lines|all lines|the places] in {1} [with|that have|that mention|that contain] {0}[.|]",
        "[Does|Is] {0} [stand|appear|used|occur] [in|anywhere in] {1}?", "Which files of {1} mention {0}?", "grep {0} {1}",
        "[Does|Do] [the word |the text |the name |]{0} [appear|stand|come up|show up] [anywhere in|somewhere in|in] [|the folder ]{1}?",
        "[Look|Search] for {0} in all files [under|in|of|below|inside] {1}[.|]",
    ),
    "grep here": (
        "[Search|Look through|grep|Scan] [the files|my files|all files|this folder|the code|the project] for {0}[.||, please.]",
        "[Find|Locate|Seek] {0} in [the files|all files|this folder|my files|the code][.|]", "Search all files for {0}[.|]",
        "[Where|In which file|In which files] [is|stands|do I find|can I find] {0}[?|]", "Where in [the code|the files|this folder] is {0}?",
        "[Which|What] [files|lines|file] [have|contain|mention|hold|has|mentions] {0}?",
        "[Show|List] [the lines|all lines|the files|each place] [with|that have|that mention|containing] {0}[.|]", "grep {0}",
        "[Do|Does] [any file|any of my files|my files] [have|mention|contain|hold] {0}?",
        "{0}[: | - |, ][which files have it|where is it|which files have that word|search the files for it|find it in the files][?|.]",
        "[Look|Search] for {0} in [all files|the files|every file|the whole folder|my code] [here|of this folder|]",
    ),
    "shell": (
        "[Run|Execute|Start|Launch|Please run|Do|Perform|Now run|Call] `{0}`[.||, please.]", "[Run|Execute|Start|Do] {0}",
        "[Run|Execute|Give|Enter|Issue|Type] the command [|`]{0}", "[Run|Do|Start|Execute] `{0}` in [the shell|bash|a shell|the terminal][.|]",
        "Run {0} in the shell[.|]", "[Run|Execute] this[:| command:] {0}", "$ {0}", "Please [run|execute] {0}",
        f"[{_CAN}] [run|execute|start] `{{0}}`[?|.|]", "[In the shell|In bash|On the command line|In a terminal]: {0}",
        "[What does|What is the output of|What comes from|What happens with] `{0}` [say|print|]?", "Command: {0}",
        "[Let|Have] `{0}` run[.|]", "The command `{0}`[, please|, run it|, now][.|]",
    ),
    "write": (
        "[Write|Create|Make|Add|Save|Store|Put down] [a file|the file|a new file] {0} with [the text|the words|the content|the line] {1}",
        "[Create|Make|Add|Write] [|a new file ]{0}[: | with: | containing: ]{1}", "[Write|Put|Save|Store] {1} [into|in|to] [|the file |a file named ]{0}[.|]",
        "[Write|Put] [this|these words] [into|to] {0}: {1}", "[Make|Create] {0} [that says|which holds|holding|with the text] {1}",
        "[New file|A new file|File] {0}: {1}", "[Save|Store|Note|Keep] [this|the following] [as|in|under] {0}: {1}",
        f"[{_CAN}] [write|make|create] [a file |]{{0}} with the text {{1}}",
        "I [need|want] a file {0} [with|that says|containing|saying] {1}",
        "[I need|I want|Make me|Please make] a file {0} with [this|these words|that text] in it: {1}",
        "{1}[ - please write that into | - put this into | - save it as | - this goes to ][|a file named |the file ]{0}[.|]",
    ),
    "search": (
        f"[Search|Browse|Scan|Comb|Query|Check] [{_WEB}] for {{0}}[.||, please.]", "[Search|Look|Google|Hunt] for {0}[.||, please.| now]",
        f"[Look up|Find|Search|Find out about|Research|Seek] {{0}} [on|in] [{_WEB}][.||, please.]", "Google {0}[.|]",
        f"What does [{_WEB}] [say|know|have|tell] [{_ABOUT}] {{0}}[?|]", f"[Do|Make|Start|Run] a [web search|search|Google search|quick search] [{_ABOUT}] {{0}}[.|]",
        "[Look|Search|Check] {0} [up online|online|up on the web|up][.||, please.]", f"Look on [{_WEB}] for {{0}}[.|]",
        f"What can [you|I|one|we] find on [{_WEB}] [{_ABOUT}] {{0}}[?|]", "[Please|Now|Then|Kindly] [search|look] for {0}[.|]",
        f"[{_CAN}] [search|look] [online|the web|on the net|the internet] for {{0}}[?|.|]", f"See what [{_WEB}] has [{_ABOUT}] {{0}}[.|]",
        "Search online for {0}[.|]", "[Web search|Online search|Search|Search the web]: {0}",
        "{0}[: search the web|: look it up online|: find it on the web|, please look it up online][.|]",
        "[Find|Get|Look for|Search for|Give me|Fetch] [information|news|facts|something|details|pages|anything] [about|on|regarding|concerning] {0} [on the web|online|on the internet|from the web][.||, please.]",
        "What can [you|we|one] find about {0} [online|on the web|on the internet|out there][?|]",
        "[Check|Search|Look at|Ask] the web for [news|facts|information|pages|anything] [on|about] {0}[.||, please.]",
        "[Is there|Are there|Do you find] [anything|pages|news|something] [online|on the web] [about|on] {0}?",
    ),
    "greeting": (
        "[Hello|Hi|Hey|Greetings|Good morning|Good afternoon|Good evening|Good day|hello|hi|hey|Howdy|Hiya|Morning|Evening] "
        "[there|again|you|friend|to you|dear model|étude|dear friend|everyone|my friend|old friend|buddy][!|.||, how are you?]",
        "[Hello|Hi|Hey|Good morning|Good evening|Greetings|Good day|Welcome|Dear|hi|Good afternoon] {0}[!||.|, how are you?| again!]",
        "[Hey|Hi|Hello|Greetings|Good evening|Good afternoon|Morning][!|.||, how are you?|!!]",
        "[{0} says hello|{0} greets you|Hello from {0}|A good morning from {0}|{0} sends greetings|Greetings from {0}|{0} waves][.||!]",
        "How [are you|do you do|are you today|is it going|are things|goes it|are you doing|is your day][?|, {0}?]",
        "[Hola|Bonjour|Guten Tag|Ciao|Hallo|Salut|Namaste|Olá|Hej|Ahoj|Merhaba|Konnichiwa|Guten Morgen|Buenos días|Servus|"
        "Bonsoir|Buongiorno|Aloha|Salaam|Shalom|Moin|Guten Abend|Buenas tardes|Privet|Nihao|Grüezi|Dobrý den|Bom dia|Moi|Cześć]"
        "[!||.|, {0}!| {0}]",
        "[Nice|Good|Great|Glad] to [meet|see] you[!|.||, {0}!]", "[What's up|Sup|Yo|Hi hi|Are you there|Anybody there][?|!|]",
    ),
    "who": (
        "[Who|What] are you[?| then?| really?|, please?]", "[what|What] are you called[?|]", "Which model are you[?|]",
        "[What|Which|What kind of|What sort of] model [are you|is this|am I talking to|runs here|answers here]?",
        "What is your name[?|, please?|]", "Are you [ChatGPT|a model|a robot|a human|an AI|GPT|a machine|real|Claude]?",
        "[Tell me about|Describe|Introduce|Say something about|Present|Explain] yourself[.| to {0}.|, please.|]",
        "[Say|Tell me|Tell {0}|Explain to {0}|Let me know] who you are[.|, please.|]", "Who am I [talking|speaking|writing] to[?|]",
        "{0} [wants to know|asks|wonders|would like to hear] [who|what] you are[.|]", "Are you {0}[?| or who are you?]",
        "Is your name {0}[?|]", "What kind of {0} are you[?|]", "Which {0} are you[?|]", "[Who|What company] made you[?|]",
        "What can I call you[?|]", "Do you have a name[?|]", "Do you know [who|what] you are[?|]", "Are you [called|the model|named] {0}[?|]",
    ),
    "repeat": (
        "[Repeat|Say|Echo|Speak|Write|Type|Print|Copy] after me: {0}", "[Say|Echo|Repeat|Parrot] {0}", "[Repeat|Say|Echo|Type|Copy]: {0}",
        "[Repeat|Say|Echo] this: {0}", "Please [say|repeat|echo]: {0}", "[Repeat|Say|Speak|Echo] [these words|the words|this text|this line|word for word|exactly|the following]: {0}",
        "Say after me: {0}", "Say as I do: {0}", f"[{_CAN}] [say|repeat|echo] {{0}}", "[Now|Then|Next] [say|repeat]: {0}",
        "[Answer|Reply|Respond] with [these words|exactly this|just this|the words]: {0}", "[I say|My words|Here it is]: {0}. [Repeat it|Say it|Echo it]",
    ),
    "my name": (
        "[My name is|I am|I'm|Call me|You can call me|They call me|People call me|I am called|My name's|It's me,] {0}[.||!]",
        "[Hi|Hello|Hey|Good morning|Good day][, |! ][I'm|I am|my name is] {0}[.||!]", "{0} is my name[.||!]",
        "[The name is|My first name is|Here is|This is] {0}[.||!]", "[Please|From now on] call me {0}[.|]",
        "I [go by|was named|answer to] {0}[.|]", "[You are|You're] talking to {0}[.|]", "[Note|Remember]: my name is {0}[.|]",
    ),
    "who am i": (
        "[What is|What's|Do you know|Tell me|Say|Do you remember|Can you tell me|Remember|Do you recall] my name[?|.| please?]",
        "Who am I[?|, please?|]", "What am I called[?|]", "[Which|What] name did I [give you|tell you|say|mention][?|]",
        "[{0} asks for|Tell {0}|Say to {0}|{0} wants to know] my name[.|]", "What [do|did] I call myself[?|]",
        "[How|What] [am I called|do you call me|should you call me][?|, {0}?]", "Does {0} know my name[?|]",
        "[What is|And what is|So what is] my name[, {0}?|?]", "My name[, please.|?|]",
    ),
    "thanks": (
        "[Thanks|Thank you|Many thanks|Thanks a lot|Thank you so much|Thank you very much|Cheers|Thanks so much|Ta|Much obliged][!|.||, {0}!| again.]",
        "[Great|Good|Perfect|Fine|Wonderful|Super|Nice|Cool], [thanks|thank you|many thanks|thank you very much][!|.|| {0}.]",
        "[Thanks|Thank you] for [{0}|that|your help|the answer|everything|all of this][.|!|]", "{0} [thanks you|says thank you|says thanks][.|]",
        "Thank you, that [was|is] [good|great|all|helpful|what I wanted][.|!]", "[That is|That's|It is] great, thanks[.|]",
        "[I thank you|My thanks|I am grateful][.|!|, {0}.]", "[thx|ty|tysm|thanks]",
    ),
    "date": (
        "[What is|What's|Tell me|Do you know|I need|Say|Give me|What was|Can you tell me] [the date|today's date|the current date|the date today|the date of today][?|.|, please.]",
        "[What|Which] [day|date] is [it|it today|today][?|, please?|]", "[The date|Today's date|date today|The current date][?|, please.|]",
        "[Which|What] date [do we have|is on the calendar|have we|do you have][, {0}?|?]", "What [day|date] is it in {0}[?|]",
        "[Tell|Give] {0} [the date|today's date|what day it is][.|]", "{0} [asks for|wants to know|needs] the date[.|]",
        "I am in {0}, what [day|date] is it?", "What is the date [in|for] {0}[?|]", "[Which|What] day is [it|today], {0}?",
        "What is the date, {0}?", "[What do we have|Which day have we] today[?|]", "[Today is|It is] [what|which] [day|date]?",
    ),
    "tools": (
        "[What|Which] tools [do you have|can you use|are there|are on|do you know|have you got|can I use|do you see|are available|exist here][?| for {0}?|, {0}?]",
        "[Name|List|Show me|Tell me|Show|Give me|Print|Enumerate] [your tools|the tools|all your tools|your available tools][.|| for {0}.]",
        "What can you [do|use|call][?| for me?| here?]", "What are your [tools|functions|abilities|skills][?|]",
        "[Tell|Show] {0} [your tools|which tools you have|what tools you have][.|]", "{0} asks [what|which] tools you have[.|]",
        "With [which|what] tools do you work[?|]", "[Are there|Do you have|Have you] [any tools|tools for {0}|tools][?|]",
        "[Your tools|The tools|Available tools|Tools][?|, please.|: which?]", "[What|Which] functions [do you have|can you call|are there|are on][?|]",
    ),
    "first": (
        "What was my first [question|message|request|line|sentence][?|, {0}?|]", "What did I [ask|say|write|want] [first|at first|at the start|at the beginning|in the beginning][?|]",
        "[Repeat|Tell me|Show|Quote|Say] my first [message|question|request|line][.|]", "[Which|What] question came first[?|]",
        "What was the first thing I [said|asked|wrote|wanted][?|]", "[Tell|Show] {0} my first [message|question][.|]",
        "[What|Which] was the first [question|message] [of mine|I asked|I sent|of this chat]?", "What did {0} ask you first[?|]",
        "I am {0}: what did I ask first?", "What did I ask you first, {0}?", "{0} [wants to hear my first message|asks what I said first][.|]",
        "[How|With what] did I [begin|start][?|]",
    ),
    "again": (
        "[Say|Repeat|Tell me|Give me|Write] [that|it|this] [again|once more|one more time|another time][.|, please.|]",
        "[Repeat|Say] [that|it|your answer|your last answer][.|, please.|]", "[Once more|Again|One more time][, please.|.|, {0}.| for {0}.|]",
        "[Repeat|Say] your [last|previous] [answer|message|reply|words][.| for {0}.|]", "[What|Pardon|Sorry, what] did you [say|answer|just say][?|]",
        "[Say|Repeat] that [again |once more |]for {0}[.|]", "Tell {0} [that again|once more|it again|again][.|]", "Pardon[?|]",
        "[I didn't get that|I missed that|I forgot], [again|once more|say it again][.|, please.]", "Come again[?|]",
    ),
    "person": (
        "[|My friend |My brother |My sister |This is |Our |Dear |A man named |Here is ]{0} [is|turned|has turned|became|just turned|is now|will be|turns|is soon|was] {1}[.||!| years old.]",
        "{0}[, | (|: | - |; | = |/| aged |, aged |, age ]{1}", "I am {0} and I am {1}[ years old.|.|]", "[Name|name|Person|Who]: {0}, [age|Age|years|old]: {1}",
        "[Name|The name is|Person|A person named] {0}, [age|aged|years|the age is] {1}[.|]", "{0} [is|was] born {1} years ago[.|]", "{1} years old [is|was] {0}[.|]",
        "[This is|Meet|Here comes|That is] {0}, [who is|aged|now|already] {1}[.||  years old.]", "[At|With|Aged] {1}, {0} [is|feels|looks] [young|old|fine|happy][.|]",
        "{0} [will be|turns|is going to be|becomes] {1} [soon|today|tomorrow|this year|next week][.|]", "The age of {0} is {1}[.|]", "{1}[: |, | - ]{0}",
        "{0} [has reached|celebrates|feels like|looks like|is about] {1}[.||!]",
        "[Say hello to|Know|Remember|I met|Here is] {0}[, | who is | - ]{1}[.||!| years old.]",
    ),
    "shopping": (
        "[I need to buy|Buy|I need|Get me|We need|My list:|Please buy|I want|Shopping list:|Bring|Bring me|Get|Order|Pick up|We want|I should buy] {0}[.||!|, please.]",
        "[Please add|Add|Put|Write|Note] {0} [to the list|on the list|on my list|on the shopping list|down][.|]", "{0}[.|, please.|]",
        "[Don't forget|Remember|We are out of|We ran out of|There is no] {0}[.|!|]", "Please add {0} to the list[.|]",
        "[At the shop|At the market|In town|Today]: {0}[.|]", "[Could you|Can you|Will you] [buy|get|bring] {0}?",
        "[The list|Today's list|The shopping list][ is|:] {0}[.|]",
        "[I still have to get|I have to buy|I must get|We should pick up|On my way home I buy|For dinner I need] {0}[.||!]",
        "[Need|Get|Buy|Fetch] {0} [from the shop|at the store|from the market|in town|at the supermarket][.||, please.]",
        "{0}[ - |: |, ][that is what we need|we need these|I have to buy that|please buy it|all of it is missing][.|]",
        "[For dinner|For the party|For tomorrow|For the cake] [I need|we want|get|buy] {0}[.|!|]",
    ),
    "event": (
        "There [is|will be|was] [a|the|one|another] {0} in {1}[.|]", "[The|A|This|Our|Their|Next] {0} [takes place|is|happens|will be|was|starts|is held|opens] in {1}[.|]",
        "{0} [at|in|@] {1}", "In {1} [we have|there is|they hold|they have|takes place|I saw] [a|the] {0}[.|]", "[A|The] {0} in {1}[.|]",
        "[We go to|I go to|Let's visit|I saw|We visit|She leads|I plan|Join] [the|a] {0} in {1}[.|!]", "{1} has [a|its|the] {0}[.|]",
        "[Event|Title|What]: {0}, [city|place|where]: {1}", "[Come to|Welcome to|See you at|Tickets for] the {0} in {1}[.|!]", "{1}[: |, | - ][the|a] {0}",
        "the {0} is [on|held|planned|next], [and it's|it will be|this time] in {1}[.|]",
        "{0}[, to be held| happening| coming up|, live] in {1}[.|!|]",
        "In {1}[: |, ][the|a|our] {0}[.|!|]",
        "[Don't miss|I look forward to|We are invited to|I missed] [the|a] {0} in {1}[.|!|]",
    ),
    "pairs": (
        "The {0} is {1} and the {2} is {3}[.|]", "{0}[: |:| : | - ]{1}[, |; |\n|. ]{2}: {3}", "{0} = {1}[ and |, |; |\n]{2} = {3}", "{0} {1}[, | and |; |\n]{2} {3}",
        "{0} is {1}[, | and |; |, while ]{2} is {3}[.|]", "[My|The|Our|His|Her|Its] {0} is {1}, [my|the|our|his|her|its] {2} is {3}[.|]",
        "{0}={1}[, | |;| and |&]{2}={3}", "[Set|Take|Let|With|Have] {0} [to|be|as|at] {1} and {2} [to|be|as|at] {3}[.|]",
        "[Its|The] {0} [equals|was|has the value|should be|must be] {1}, [its|the] {2} [equals|was|should be] {3}[.|]",
        "{1} [is the|as the|for the|as|for] {0}[, | and |; ]{3} [is the|as the|for the|as|for] {2}[.|]",
        "[We have|I have|There is|Given] {0} {1} and {2} {3}[.|]", "{0} set to {1}, {2} set to {3}[.|]",
        "{0} [->|has|has the value|stands at] {1}[, | and |; ]{2} [->|has|has the value|stands at] {3}[.|]",
        "[I have|Here are|There are] two [values|things|facts][: |, ]{0} [being|is|=] {1} and {2} [being|is|=] {3}[.|]",
    ),
}  # fmt: skip

BEFORE = (
    "Please ", "Hey, ", "OK, ", "Could you kindly ", "Now ", "Well, ", "So, ", "Right, ", "Hello! ", "Hi, ", "Quick one: ",
    "Sorry, ", "Once more: ", "Excuse me, ", "A question: ", "Let's see: ", "Hi there. ", "If you can: ", "Be so kind: ",
    "Next: ", "By the way, ", "Then: ", "Good morning. ", "One thing: ", "ok so ", "Hmm, ", "please ", "Alright, ",
)  # fmt: skip
"""What stands before a request and means nothing."""
AFTER = (
    " please", " for me", " now", " if you can", ", thanks", " again", " then", " today", ", will you", " right now",
    " once more", " quickly", ", ok", ", would you", " this time", ", if that is possible", " at once", ", thank you",
    ", dear étude", " as always", ", please", " when you can", ", friend", ", my dear", " asap",
)  # fmt: skip
WITH = (
    " with {0}", ": {0}", ", {0}", " using {0}", " with the {0}", " for {0}", " ({0})", " on {0}", " where {0}", "; {0}",
    " with these arguments: {0}", " by {0}", ", where {0}", " given {0}", " - {0}", ", with {0}", " and {0}", "\n{0}",
    " with arguments {0}", " setting {0}", " taking {0}", ", arguments: {0}", " and set {0}", " at {0}", " that has {0}",
)  # fmt: skip
"""How a call's arguments follow its function."""
PAIR = (
    "{0} {1}", "{0}={1}", "{0}: {1}", "{0} set to {1}", "{0} = {1}", "{0} is {1}", "{0} as {1}", "the {0} {1}", "{0} to {1}",
    "{1} as {0}", "{0} being {1}", "{1} for {0}", "{0} of {1}", "{0} -> {1}", "{1} as the {0}", "{0} equal to {1}",
    "{1} for the {0}", "a {0} of {1}", "{0}:{1}", "{0} at {1}", "the {0} is {1}", "{0} equals {1}", "{0} must be {1}",
    "its {0} {1}", "{0} '{1}'", "{0} `{1}`", '{0} "{1}"', "{0} should be {1}", "{1} ({0})", "the {0} set to {1}",
    "{1} being the {0}", "the value {1} for {0}",
)  # fmt: skip
"""How one argument is said."""
JOIN = (" and ", ", ", ", and ", "; ", " plus ", " & ", ", also ", " as well as ", " with ", "\n", ", then ", " then ")
